# Supervisor entry in 32-bit protected mode, the way into long mode, and the two ways back from user code.

    .section .start, "ax"
    .code32
    .globl _start
_start:
    movl $stack_top, %esp
    movl %cr4, %eax
    orl $0x620, %eax             # PAE, OSFXSR, OSXMMEXCPT
    movl %eax, %cr4
    movl $pml4, %eax
    movl %eax, %cr3
    movl $0xC0000080, %ecx       # EFER: SCE and LME
    rdmsr
    orl $0x101, %eax
    wrmsr
    movl $0x80010013, %eax       # PG, WP, ET, MP, PE
    movl %eax, %cr0
    lgdt gdt_pointer
    ljmp $0x08, $long_mode

    .text
    .code64
long_mode:
    movw $0x10, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    fninit
    leaq tss(%rip), %rax         # the descriptor's base address, scattered over three fields
    movw %ax, gdt_tss + 2(%rip)
    shrq $16, %rax
    movb %al, gdt_tss + 4(%rip)
    movb %ah, gdt_tss + 7(%rip)
    movw $0x30, %ax
    ltr %ax
    call SupervisorMain
    ud2

# void EnterUser(uint64_t instruction, uint64_t stack)
    .globl EnterUser
EnterUser:
    movq %rdi, %rcx
    movq %rsi, %rsp
    movl $0x2, %r11d             # flags: interrupts off for ever
    xorl %eax, %eax
    xorl %ebx, %ebx
    xorl %edx, %edx              # not a function for atexit
    xorl %ebp, %ebp
    sysretq

# Linux calling convention: number in rax, arguments in rdi rsi rdx r10 r8 r9; only rax, rcx and r11 change.
    .globl SyscallEntry
SyscallEntry:
    movq %rsp, user_stack(%rip)
    leaq stack_top(%rip), %rsp
    pushq %rcx
    pushq %r11
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %r10
    pushq %r8
    pushq %r9
    movq %r8, %r9
    movq %r10, %r8
    movq %rdx, %rcx
    movq %rsi, %rdx
    movq %rdi, %rsi
    movq %rax, %rdi
    call Syscall
    popq %r9
    popq %r8
    popq %r10
    popq %rdx
    popq %rsi
    popq %rdi
    popq %r11
    popq %rcx
    movq user_stack(%rip), %rsp
    sysretq

# One stub for each exception, 16 bytes apart. Those without an error code push a zero.
    .globl exception_stubs
    .balign 16
exception_stubs:
    .set vector, 0
    .rept 32
    .balign 16
    .if !((0x60227D00 >> vector) & 1)
    pushq $0
    .endif
    pushq $vector
    jmp exception
    .set vector, vector + 1
    .endr
exception:
    movq %rsp, %rdi              # {vector, error code, rip, cs, flags, rsp, ss}
    movq %cr2, %rsi
    andq $-16, %rsp
    call Exception
    ud2

    .data
    .balign 8
gdt:
    .quad 0
    .quad 0x00AF9B000000FFFF     # 08: supervisor code
    .quad 0x00CF93000000FFFF     # 10: supervisor data
    .quad 0                      # 18: SYSRET takes its selectors relative to this one
    .quad 0x00CFF3000000FFFF     # 20: user data
    .quad 0x00AFFB000000FFFF     # 28: user code
gdt_tss:
    .quad 0x0000890000000067     # 30: task state
    .quad 0
gdt_pointer:
    .word . - gdt - 1
    .quad gdt
    .balign 16
tss:
    .long 0
    .quad stack_top              # rsp0: where exceptions in user code push their frame
    .fill 23, 4, 0
    .balign 8
user_stack:
    .quad 0

# Identity map of the first 512 MiB in pages of 2 MiB, for the supervisor alone; SupervisorMain hands parts to the user.
    .balign 4096
pml4:
    .quad pdpt + 7
    .fill 511, 8, 0
pdpt:
    .quad page_directory + 7
    .fill 511, 8, 0
    .globl page_directory
page_directory:
    .set address, 0
    .rept 256
    .quad address + 0x83
    .set address, address + 0x200000
    .endr
    .fill 256, 8, 0

    .bss
    .balign 4096
    .skip 65536
stack_top:
