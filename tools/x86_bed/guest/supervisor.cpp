// The guest's operating system: what one static, single-threaded Linux program needs, and nothing else. It turns on the
// register state that the host asks for (XCR0), runs the program in user mode with its input on descriptor 0, and sends
// what the program writes, how it ended and any fault to the host through the parallel port.
//
// Physical = virtual memory:
//   0x006000             BootInfo, written by the host
//   1 MiB   .. 4 MiB     this program
//   4 MiB   .. 256 MiB   user memory in pages of 4 KiB, so that the program can have guard pages
//   256 MiB .. 512 MiB   the program's file and its input, as the host loaded them
#include <cstddef>
#include <cstdint>

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kUserBegin = 4ull << 20;
constexpr uint64_t kUserEnd = 256ull << 20;
constexpr uint64_t kHeapEnd = 96ull << 20;
constexpr uint64_t kStackBytes = 1ull << 20;
constexpr uint64_t kMmapEnd = kUserEnd - kStackBytes - kPage;  // a hole below the stack

// guest.py writes this structure.
struct BootInfo {
  uint64_t program, program_bytes;
  uint64_t input, input_bytes;
  uint64_t strings, argc, envc;  // NUL-terminated strings, arguments before environment
  uint64_t xcr0;                 // state components to enable if the CPU has them; 0: leave XSAVE off
};
const BootInfo& Info() { return *reinterpret_cast<const BootInfo*>(0x6000); }

// ------------------------------------------------------------------------------------------------ host

// Kinds of packet {u8 kind, u32 bytes, payload}; guest.py reads them.
enum Packet : uint8_t { kStdout = 1, kStderr = 2, kExit = 3, kFault = 4 };

void Out(uint16_t port, uint8_t value) { asm volatile("outb %0, %1" : : "a"(value), "Nd"(port)); }

void SendBytes(const void* data, size_t bytes) {
  const auto* at = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < bytes; ++i) {
    Out(0x378, at[i]);
    Out(0x37A, 0x0D);  // strobe on, off: the printer takes the byte
    Out(0x37A, 0x0C);
  }
}

void Send(Packet kind, const void* data, uint32_t bytes) {
  SendBytes(&kind, 1);
  SendBytes(&bytes, 4);
  SendBytes(data, bytes);
}

[[noreturn]] void PowerOff() {
  for (const char* at = "Shutdown"; *at != 0; ++at) Out(0x8900, static_cast<uint8_t>(*at));  // Bochs's own port
  for (;;) asm volatile("cli; hlt");
}

[[noreturn]] void Exit(uint32_t status) {
  Send(kExit, &status, sizeof status);
  PowerOff();
}

// ------------------------------------------------------------------------------------------------ CPU

void WriteMsr(uint32_t msr, uint64_t value) {
  asm volatile("wrmsr" : : "c"(msr), "a"(static_cast<uint32_t>(value)), "d"(static_cast<uint32_t>(value >> 32)));
}

struct CpuidResult {
  uint32_t eax, ebx, ecx, edx;
};
CpuidResult Cpuid(uint32_t leaf, uint32_t subleaf) {
  CpuidResult r{};
  asm volatile("cpuid" : "=a"(r.eax), "=b"(r.ebx), "=c"(r.ecx), "=d"(r.edx) : "a"(leaf), "c"(subleaf));
  return r;
}

// CR4.OSXSAVE and XCR0, as an operating system with support for just these components would set them.
void EnableExtendedState(uint64_t wanted) {
  const bool has_xsave = (Cpuid(1, 0).ecx >> 26 & 1) != 0;
  if (!has_xsave || wanted == 0) return;
  uint64_t cr4 = 0;
  asm volatile("mov %%cr4, %0" : "=r"(cr4));
  asm volatile("mov %0, %%cr4" : : "r"(cr4 | 1ull << 18));
  const uint64_t xcr0 = wanted & Cpuid(0xD, 0).eax;
  asm volatile("xsetbv" : : "c"(0), "a"(static_cast<uint32_t>(xcr0)), "d"(0));
}

// ------------------------------------------------------------------------------------------------ memory

alignas(4096) uint64_t page_tables[kUserEnd / kPage];
constexpr uint64_t kUserPage = 0x7;   // present, writable, user
constexpr uint64_t kHidden = 1 << 9;  // allocated but not present: a bit that the CPU ignores
uint64_t heap_end = 0;

uint64_t RoundUp(uint64_t value) { return (value + kPage - 1) & ~(kPage - 1); }

void FlushTlb() {
  uint64_t cr3 = 0;
  asm volatile("mov %%cr3, %0; mov %0, %%cr3" : "=r"(cr3) : : "memory");
}

bool InUserMemory(uint64_t begin, uint64_t bytes) {
  return begin >= kUserBegin && begin <= kUserEnd && bytes <= kUserEnd - begin;
}

void Map(uint64_t begin, uint64_t end) {
  for (uint64_t page = begin & ~(kPage - 1); page < end; page += kPage) {
    if (page_tables[page / kPage] != 0) continue;
    page_tables[page / kPage] = page | kUserPage;
    void* to = reinterpret_cast<void*>(page);
    uint64_t count = kPage / 8;
    asm volatile("rep stosq" : "+D"(to), "+c"(count) : "a"(0) : "memory");
  }
}

void Unmap(uint64_t begin, uint64_t end) {
  for (uint64_t page = begin; page < end; page += kPage) page_tables[page / kPage] = 0;
  FlushTlb();
}

// Highest free run of pages below kMmapEnd, or 0.
uint64_t FindFree(uint64_t bytes) {
  uint64_t run = 0;
  for (uint64_t page = kMmapEnd - kPage; page >= kHeapEnd; page -= kPage) {
    run = page_tables[page / kPage] == 0 ? run + kPage : 0;
    if (run >= bytes) return page;
  }
  return 0;
}

void CopyBytes(uint64_t to, const void* from, uint64_t bytes) {
  auto* target = reinterpret_cast<void*>(to);
  asm volatile("rep movsb" : "+D"(target), "+S"(from), "+c"(bytes) : : "memory");
}

// ------------------------------------------------------------------------------------------------ system calls

enum : int64_t { kNoEntry = -2, kBadFile = -9, kNoMemory = -12, kInvalid = -22, kNoSyscall = -38 };
uint64_t input_read = 0;

int64_t Read(uint64_t fd, uint64_t to, uint64_t bytes) {
  if (fd != 0) return kBadFile;
  const uint64_t left = Info().input_bytes - input_read;
  const uint64_t count = bytes < left ? bytes : left;
  CopyBytes(to, reinterpret_cast<const void*>(Info().input + input_read), count);
  input_read += count;
  return static_cast<int64_t>(count);
}

int64_t Write(uint64_t fd, uint64_t from, uint64_t bytes) {
  if (fd != 1 && fd != 2) return kBadFile;
  Send(fd == 1 ? kStdout : kStderr, reinterpret_cast<const void*>(from), static_cast<uint32_t>(bytes));
  return static_cast<int64_t>(bytes);
}

int64_t Writev(uint64_t fd, uint64_t vectors, uint64_t count) {
  int64_t total = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const auto* vector = reinterpret_cast<const uint64_t*>(vectors) + 2 * i;  // {address, bytes}
    const int64_t written = Write(fd, vector[0], vector[1]);
    if (written < 0) return written;
    total += written;
  }
  return total;
}

int64_t Brk(uint64_t end) {
  if (end > heap_end && end <= kHeapEnd) {
    Map(heap_end, end);
    heap_end = end;
  }
  return static_cast<int64_t>(heap_end);
}

int64_t Mmap(uint64_t bytes, uint64_t protection, uint64_t fd) {
  if (static_cast<uint32_t>(fd) != 0xFFFFFFFF) return kBadFile;
  if (bytes == 0 || bytes > kUserEnd) return kInvalid;
  const uint64_t begin = FindFree(RoundUp(bytes));
  if (begin == 0) return kNoMemory;
  Map(begin, begin + bytes);
  if (protection == 0) {
    for (uint64_t page = begin; page < begin + bytes; page += kPage) page_tables[page / kPage] = kHidden;
  }
  return static_cast<int64_t>(begin);
}

int64_t Mprotect(uint64_t begin, uint64_t bytes, uint64_t protection) {
  if (!InUserMemory(begin, bytes)) return kNoMemory;
  for (uint64_t page = begin; page < begin + bytes; page += kPage) {
    uint64_t& entry = page_tables[page / kPage];
    if (entry == 0) return kNoMemory;
    entry = protection == 0 ? kHidden : page | kUserPage;  // hidden pages keep their content
  }
  FlushTlb();
  return 0;
}

int64_t ArchPrctl(uint64_t code, uint64_t value) {
  constexpr uint64_t kSetFs = 0x1002;
  if (code != kSetFs) return kInvalid;
  WriteMsr(0xC0000100, value);
  return 0;
}

// ------------------------------------------------------------------------------------------------ the program

struct ElfHeader {
  uint8_t ident[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, program_headers, section_headers;
  uint32_t flags;
  uint16_t header_bytes, program_header_bytes, program_header_count;
};
struct ElfProgramHeader {
  uint32_t type, flags;
  uint64_t offset, address, physical, file_bytes, memory_bytes, align;
};

[[noreturn]] void Refuse(const char* why) {
  size_t bytes = 0;
  while (why[bytes] != 0) ++bytes;
  Send(kStderr, why, static_cast<uint32_t>(bytes));
  Exit(126);
}

// Returns the address of the program headers in user memory.
uint64_t LoadProgram(const ElfHeader& elf) {
  constexpr uint32_t kLoad = 1;
  const auto* headers = reinterpret_cast<const ElfProgramHeader*>(Info().program + elf.program_headers);
  uint64_t headers_address = 0;
  for (uint16_t i = 0; i < elf.program_header_count; ++i) {
    const ElfProgramHeader& segment = headers[i];
    if (segment.type != kLoad) continue;
    if (!InUserMemory(segment.address, segment.memory_bytes) || segment.address + segment.memory_bytes > kHeapEnd) {
      Refuse("supervisor: a segment lies outside user memory; link the program with -static -no-pie\n");
    }
    Map(segment.address, segment.address + segment.memory_bytes);
    CopyBytes(segment.address, reinterpret_cast<const void*>(Info().program + segment.offset), segment.file_bytes);
    if (segment.offset <= elf.program_headers && elf.program_headers < segment.offset + segment.file_bytes) {
      headers_address = segment.address + elf.program_headers - segment.offset;
    }
    const uint64_t end = RoundUp(segment.address + segment.memory_bytes);
    if (end > heap_end) heap_end = end;
  }
  return headers_address;
}

// System V stack at process entry: argc, argv, NULL, environment, NULL, auxiliary vector.
uint64_t BuildStack(const ElfHeader& elf, uint64_t headers_address) {
  Map(kUserEnd - kStackBytes, kUserEnd);
  const BootInfo& info = Info();
  const auto* strings = reinterpret_cast<const char*>(info.strings);
  uint64_t bytes = 0;
  for (uint64_t left = info.argc + info.envc; left != 0; ++bytes) left -= strings[bytes] == 0;
  const uint64_t strings_at = kUserEnd - 64 - bytes;
  CopyBytes(strings_at, strings, bytes);
  const uint64_t random_at = kUserEnd - 32;  // sixteen bytes for glibc's stack guard; zeros will do

  const uint64_t words = 1 + info.argc + 1 + info.envc + 1 + 2 * 7;
  const uint64_t stack = (strings_at - 8 * words) & ~15ull;
  auto* at = reinterpret_cast<uint64_t*>(stack);
  uint64_t string = strings_at;
  const auto add_strings = [&](uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      *at++ = string;
      while (*reinterpret_cast<const char*>(string++) != 0) {
      }
    }
    *at++ = 0;
  };
  const auto add_auxiliary = [&](uint64_t type, uint64_t value) {
    *at++ = type;
    *at++ = value;
  };
  *at++ = info.argc;
  add_strings(info.argc);
  add_strings(info.envc);
  add_auxiliary(3, headers_address);  // AT_PHDR
  add_auxiliary(4, sizeof(ElfProgramHeader));
  add_auxiliary(5, elf.program_header_count);
  add_auxiliary(6, kPage);      // AT_PAGESZ
  add_auxiliary(9, elf.entry);  // AT_ENTRY
  add_auxiliary(25, random_at);
  add_auxiliary(0, 0);
  return stack;
}

struct [[gnu::packed]] Gate {
  uint16_t offset_low, selector;
  uint8_t stack_table, type;
  uint16_t offset_middle;
  uint32_t offset_high, reserved;
};
Gate gates[32];

}  // namespace

extern "C" {

extern uint64_t page_directory[512];
extern const uint8_t exception_stubs[];
void SyscallEntry();
[[noreturn]] void EnterUser(uint64_t instruction, uint64_t stack);

int64_t Syscall(uint64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t, uint64_t e) {
  switch (number) {
    case 0:
      return Read(a, b, c);
    case 1:
      return Write(a, b, c);
    case 9:
      return Mmap(b, c, e);
    case 10:
      return Mprotect(a, b, c);
    case 11:
      if (!InUserMemory(a, RoundUp(b))) return kInvalid;
      Unmap(a, a + RoundUp(b));
      return 0;
    case 12:
      return Brk(a);
    case 13:  // rt_sigaction
    case 14:
      return 0;  // rt_sigprocmask
    case 20:
      return Writev(a, b, c);
    case 39:   // getpid
    case 186:  // gettid
    case 218:
      return 1;  // set_tid_address
    case 60:     // exit
    case 231:
      Exit(static_cast<uint32_t>(a));
    case 89:   // readlink
    case 257:  // openat
    case 267:
      return kNoEntry;  // readlinkat
    case 158:
      return ArchPrctl(a, b);
    case 234:
      Exit(128 + static_cast<uint32_t>(c));  // tgkill of itself: abort()
    default:
      return kNoSyscall;
  }
}

struct ExceptionFrame {
  uint64_t vector, error, instruction, code_segment, flags, stack, stack_segment;
};

[[noreturn]] void Exception(const ExceptionFrame& frame, uint64_t fault_address) {
  const bool from_user = (frame.code_segment & 3) == 3;
  const uint64_t words[] = {frame.vector, frame.error, frame.instruction, fault_address, from_user};
  Send(kFault, words, sizeof words);
  PowerOff();
}

[[noreturn]] void SupervisorMain() {
  for (unsigned vector = 0; vector < 32; ++vector) {
    const auto stub = reinterpret_cast<uint64_t>(exception_stubs) + 16 * vector;
    gates[vector] = {static_cast<uint16_t>(stub),       0x08, 0, 0x8E, static_cast<uint16_t>(stub >> 16),
                     static_cast<uint32_t>(stub >> 32), 0};
  }
  const struct [[gnu::packed]] {
    uint16_t limit;
    uint64_t base;
  } gate_table = {sizeof gates - 1, reinterpret_cast<uint64_t>(gates)};
  asm volatile("lidt %0" : : "m"(gate_table));

  WriteMsr(0xC0000081, 0x0018ull << 48 | 0x0008ull << 32);         // STAR: selectors of SYSCALL and SYSRET
  WriteMsr(0xC0000082, reinterpret_cast<uint64_t>(SyscallEntry));  // LSTAR
  WriteMsr(0xC0000084, 0x700);                                     // flags that SYSCALL clears

  for (uint64_t i = kUserBegin >> 21; i < kUserEnd >> 21; ++i) {
    page_directory[i] = reinterpret_cast<uint64_t>(&page_tables[i * 512]) | kUserPage;
  }
  FlushTlb();

  const auto& elf = *reinterpret_cast<const ElfHeader*>(Info().program);
  const uint64_t headers_address = LoadProgram(elf);
  const uint64_t stack = BuildStack(elf, headers_address);
  EnableExtendedState(Info().xcr0);
  EnterUser(elf.entry, stack);
}

}  // extern "C"
