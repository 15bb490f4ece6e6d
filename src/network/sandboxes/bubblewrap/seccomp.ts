/**
 * The filter of system calls, in the kernel’s classic BPF. Whatever takes memory that no limit of a
 * process counts, or talks to parts of the kernel that commands do not need, answers that it does
 * not exist. So do namespaces, in which a process would have powers again.
 */

/** What is refused, by name: its numbers on x86-64 and on AArch64. */
const REFUSED: Record<string, [x64: number, arm64: number]> = {
  // Memory that outlives its processes, or belongs to none.
  memfd_create: [319, 279],
  memfd_secret: [447, 447],
  shmget: [29, 194],
  msgget: [68, 186],
  semget: [64, 190],
  mq_open: [240, 180],
  // Namespaces and mounts.
  unshare: [272, 97],
  setns: [308, 268],
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  mount_setattr: [442, 442],
  // Powers over other processes, and over the kernel.
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  keyctl: [250, 219],
  add_key: [248, 217],
  request_key: [249, 218],
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  kexec_load: [246, 104],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  reboot: [169, 142],
  swapon: [167, 224],
  syslog: [103, 116],
  quotactl: [179, 60],
  open_by_handle_at: [304, 265],
  name_to_handle_at: [303, 264],
}

/** What the kernel calls the two architectures (`linux/audit.h`). */
const ARCHITECTURES: Partial<Record<string, { index: 0 | 1; audit: number }>> = {
  x64: { index: 0, audit: 0xc000003e },
  arm64: { index: 1, audit: 0xc00000b7 },
}

const LOAD = 0x20
const JUMP_IF_EQUAL = 0x15
const JUMP_IF_AT_LEAST = 0x35
const RETURN = 0x06
const ALLOW = 0x7fff0000
const KILL = 0x80000000
const ERRNO = 0x00050000
const ENOSYS = 38
/** Calls of the x32 interface have this bit, and other numbers. */
const X32 = 0x40000000
/** Its flags are its first argument; those of `clone3` are in memory, so that it does not exist. */
const CLONE: [number, number] = [56, 220]
const CLONE3 = 435
const FIRST_ARGUMENT = 16
const EAFNOSUPPORT = 97
const SOCKET: [number, number] = [41, 198]
/** Local, IPv4, IPv6 and netlink: all that a network namespace keeps apart. */
const FAMILIES = [1, 2, 10, 16]
const NEW_USER = 0x10000000
const JUMP_IF_SET = 0x45

/**
 * Builds the filter for this machine, as `bwrap --seccomp` reads it. Null for an architecture whose
 * numbers are not known here.
 */
export function buildSeccompFilter(architecture: string = process.arch): Buffer | null {
  const known = ARCHITECTURES[architecture]
  if (!known) return null
  const refused = [...Object.values(REFUSED).map(numbers => numbers[known.index]), CLONE3]
  const deny = ERRNO | ENOSYS
  const program = [
    ...[step(LOAD, 4), step(JUMP_IF_EQUAL, known.audit, 1, 0), step(RETURN, KILL)],
    ...[step(LOAD, 0), step(JUMP_IF_AT_LEAST, X32, 0, 1), step(RETURN, deny)],
    ...refused.flatMap(number => [step(JUMP_IF_EQUAL, number, 0, 1), step(RETURN, deny)]),
    step(JUMP_IF_EQUAL, CLONE[known.index], 0, 3),
    ...[step(LOAD, FIRST_ARGUMENT), step(JUMP_IF_SET, NEW_USER, 0, 1), step(RETURN, deny)],
    step(LOAD, 0),
    step(JUMP_IF_EQUAL, SOCKET[known.index], 0, FAMILIES.length + 2),
    step(LOAD, FIRST_ARGUMENT),
    ...FAMILIES.map((family, i) => step(JUMP_IF_EQUAL, family, FAMILIES.length - i, 0)),
    step(RETURN, ERRNO | EAFNOSUPPORT),
    step(RETURN, ALLOW),
  ]
  return Buffer.concat(program)
}

function step(code: number, value: number, ifTrue = 0, ifFalse = 0): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeUInt16LE(code, 0)
  bytes.writeUInt8(ifTrue, 2)
  bytes.writeUInt8(ifFalse, 3)
  bytes.writeUInt32LE(value >>> 0, 4)
  return bytes
}
