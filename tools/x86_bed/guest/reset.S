# The guest's whole firmware: a 64 KiB ROM that goes from the reset vector to 32-bit protected mode, reads the boot disk
# into memory and jumps to the supervisor. A BIOS and a boot loader would do the same in a hundred times the
# instructions, each of which is emulated.
#
# Boot disk (disk.py writes it):
#   sector 0   u32 entry, u32 zero x 3, then extents {u32 address, u32 first sector, u32 sectors}, ended by sectors = 0
#   sector 1.. what the extents say

    .set SECTOR0, 0x5000         # where sector 0 is read to
    .set STACK_TOP, 0x5000
    .set ROM_BASE, 0xF0000
    .set ATA_DATA, 0x1F0
    .set ATA_COUNT, 0x1F2        # followed by LBA low, middle, high, device, command
    .set ATA_STATUS, 0x1F7

    .code16
    .globl _start
_start:
    cli
    inb $0x92, %al               # enable address line 20
    orb $2, %al
    outb %al, $0x92
    lgdtl %cs:gdt_pointer - _start
    movl $0x11, %eax             # PE, and caches on: reset leaves CD and NW set
    movl %eax, %cr0
    ljmpl $0x08, $ROM_BASE + (protected - _start)

    .code32
protected:
    movw $0x10, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %fs
    movw %ax, %gs
    movw %ax, %ss
    movl $STACK_TOP, %esp
    cld
    movl $SECTOR0, %edi
    xorl %ebx, %ebx
    movl $1, %ecx
    call read_sectors
    movl $SECTOR0 + 16, %ebp
next_extent:
    movl 0(%ebp), %edi
    movl 4(%ebp), %ebx
    movl 8(%ebp), %ecx
    jecxz loaded
    call read_sectors
    addl $12, %ebp
    jmp next_extent
loaded:
    movl SECTOR0, %eax
    jmp *%eax

# ATA PIO read. edi: destination (advanced), ebx: first sector, ecx: sectors, > 0. Keeps ebp.
read_sectors:
    movl %ecx, %esi
command:
    movl $256, %ecx              # most that one command takes; its count register then holds 0
    cmpl %ecx, %esi
    jae 1f
    movl %esi, %ecx
1:  subl %ecx, %esi
    movw $ATA_COUNT, %dx
    movb %cl, %al
    outb %al, %dx
    movl %ebx, %eax
    .rept 3
    incl %edx
    outb %al, %dx
    shrl $8, %eax
    .endr
    incl %edx
    orb $0xE0, %al               # device 0, LBA
    outb %al, %dx
    incl %edx
    movb $0x20, %al              # READ SECTORS
    outb %al, %dx
    addl %ecx, %ebx
    movl %ecx, %eax
sector:
    pushl %eax
    movw $ATA_STATUS, %dx
2:  inb %dx, %al
    andb $0x88, %al
    cmpb $0x08, %al              # not busy, and data waiting
    jne 2b
    movw $ATA_DATA, %dx
    movl $128, %ecx
    rep insl
    popl %eax
    decl %eax
    jnz sector
    testl %esi, %esi
    jnz command
    ret

    .balign 8
gdt:
    .quad 0
    .quad 0x00CF9B000000FFFF     # 08: code, 4 GiB
    .quad 0x00CF93000000FFFF     # 10: data, 4 GiB
gdt_pointer:
    .word . - gdt - 1
    .long ROM_BASE + (gdt - _start)

    .org 0xFFF0                  # reset vector
    .code16
    ljmp $0xF000, $0
    .org 0x10000
