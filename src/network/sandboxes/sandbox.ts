import type { Cancellation } from '../../base/cancellation.ts'

/** The limits of everything that runs in one container. */
export interface SandboxLimits {
  /** What the home and the temporary directory take together, in bytes. */
  homeBytes: number
  /** What one process may map, and all of them take where the host can bound that, in bytes. */
  memoryBytes: number
  /** How many processes may run at once. */
  processes: number
  /** How many processors they take together, where the host can bound that. */
  cpus: number
}

/** How many files, directories and links a home may have. */
export const MOST_ENTRIES = 10_000

/** The largest file that a command may write, in bytes: what may be promoted, and a little more. */
export const LARGEST_OUTPUT_FILE = 128 * 1024 * 1024

/** Where commands start, and the only place whose files outlive them. */
export const HOME = '/home/sandbox'

/** What a command printed beyond this ends it: it prints without end. */
export const MOST_OUTPUT_BYTES = 64 * 1024 * 1024

/**
 * A way to run strangers’ commands. All of them are in a written list; `test/suites/sandbox.ts`
 * specifies what every one must hold, and tries to break out of it.
 */
export interface Sandbox {
  /** Its name in the config. */
  name: 'bubblewrap' | 'just-bash'
  /** What it lacks on this host, as far as that is known: null until it was tried. */
  readonly obstacle: string | null
  /** What it holds only in part on this host, once it was tried; null for nothing. */
  readonly missing: string | null
  /** Returns what it lacks on this host; null if it holds here. Tries it, once. */
  findObstacle(): Promise<string | null>
  /** Returns why its commands can have no network here; null if they can. */
  findNetworkObstacle(): string | null
  /** Starts one with an empty home. Throws what is missing. */
  open(limits: SandboxLimits, network?: SandboxNetwork): Promise<SandboxBox>
}

/** The only way out of a sandbox. */
export interface SandboxNetwork {
  /** The path of a socket on the host that speaks the protocol of an HTTP proxy. */
  socket: string
}

/** One running sandbox with a home. Its methods must not run at the same time. */
export interface SandboxBox {
  /** Whether it has ended: a command that could not be stopped otherwise may end it. */
  readonly isGone: boolean
  /** Resolves when it has ended. */
  readonly ended: Promise<void>
  /**
   * Runs a command to its end, and everything that it has started with it. Never throws for what
   * the command does. Throws the reason of the cancellation, and once the box is gone.
   */
  run(command: SandboxCommand): Promise<CommandResult>
  /** Writes files into the home, replacing those of the same path. */
  write(files: AsyncIterable<WrittenFile>): Promise<void>
  /** Lists the regular files of the home. */
  list(): Promise<HomeListing>
  /** Reads files that were just listed, one after the other, without anything in between. */
  read(files: ListedFile[]): AsyncIterable<Uint8Array>
  /** Ends it at once, with everything that runs in it. */
  close(): Promise<void>
}

export interface SandboxCommand {
  /** For bash. Has no NUL. */
  text: string
  timeoutMs: number
  /** The most characters of each stream; the rest is dropped. */
  maxOutput: number
  cancellation: Cancellation
}

export interface CommandResult {
  stdout: string
  stderr: string
  /** Null if its time was over. */
  exitCode: number | null
}

/** A file on its way into a home. */
export interface WrittenFile {
  /** From the home, without `.`, `..` and empty segments. */
  path: string
  mode: number
  size: number
  /** Exactly `size` bytes. */
  pieces: AsyncIterable<Uint8Array>
}

/** A file of a home. */
export interface ListedFile {
  path: string
  mode: number
  size: number
  /** Differs from that of every earlier state of the file in the same box. */
  version: string
}

export interface HomeListing {
  files: ListedFile[]
  /** How many entries are neither listed nor directories: links, devices, names in no UTF-8. */
  left: number
}

/** A sandbox that has ended: its commands were killed, or it broke. */
export class SandboxGone extends Error {
  constructor(message = 'The container has ended') {
    super(message)
    this.name = 'SandboxGone'
  }
}

/** Whether a path of a home may be kept: in segments, without any that leads elsewhere. */
export const isHomePath = (path: string): boolean =>
  path.length <= 4_096 &&
  path.isWellFormed() &&
  !path.includes('\0') &&
  path.split('/').every(segment => segment !== '' && segment !== '.' && segment !== '..')
