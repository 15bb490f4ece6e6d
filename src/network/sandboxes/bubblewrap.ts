import { closeSync, existsSync } from 'node:fs'
import type { Cancellation } from '../../base/cancellation.ts'
import {
  CONTROLLERS,
  ControlGroup,
  type ControlGroups,
  openControlGroups,
} from './bubblewrap/control-groups.ts'
import { FORWARDER, PROXY_PORT, PROXY_SOCKET } from './bubblewrap/forwarder.ts'
import { buildSeccompFilter } from './bubblewrap/seccomp.ts'
import { OutputText } from './output.ts'
import {
  type CommandResult,
  HOME,
  type HomeListing,
  isHomePath,
  LARGEST_OUTPUT_FILE,
  type ListedFile,
  MOST_ENTRIES,
  MOST_OUTPUT_BYTES,
  type Sandbox,
  type SandboxBox,
  type SandboxCommand,
  SandboxGone,
  type SandboxLimits,
  type SandboxNetwork,
  type WrittenFile,
} from './sandbox.ts'

/** The programs that it needs. All but the first are part of every Debian. */
const PROGRAMS = ['bwrap', 'bash', 'cat', 'find', 'mount', 'nsenter', 'prlimit', 'tar', 'unshare']
/** Only for commands with a network. It is part of every Debian. */
const FORWARDS = 'perl'
/** Only where the gateway is root, whose processes the kernel does not count. */
const AS_ROOT = 'setpriv'
/** The user that a root gateway’s commands are, outside their namespace: nobody. */
const NOBODY = 65_534

const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/**
 * Runs commands in Linux namespaces, by bubblewrap: no network, a read-only system, no user of the
 * host, and a home in memory that has a size. A container is a small process that holds a mount
 * namespace with that home; each command is a bubblewrap of its own over it, and everything that it
 * has started is killed with it.
 */
export const bubblewrap: Sandbox = {
  name: 'bubblewrap',
  get obstacle() {
    return known
  },
  async findObstacle() {
    probing ??= probe()
    known = await probing
    return known
  },
  get missing() {
    return known === null && groups !== undefined ? describeMissing(groups) : null
  },
  findNetworkObstacle: () =>
    Bun.which(FORWARDS, { PATH }) === null ? `${FORWARDS} must be installed for a network` : null,
  open: (limits, network) => BubblewrapBox.open(limits, network),
}

let probing: Promise<string | null> | undefined
let known: string | null = null
let groups: ControlGroups | string | undefined

/** Says what the kernel does not hold with these control groups, or why not; null if it holds all. */
export function describeMissing(found: Pick<ControlGroups, 'controllers'> | string): string | null {
  const filter = buildSeccompFilter() === null ? ['without a filter of system calls'] : []
  const missing = [...filter, ...listMissingGroups(found)]
  return missing.length === 0 ? null : missing.join(', ')
}

function listMissingGroups(found: Parameters<typeof describeMissing>[0]): string[] {
  if (typeof found === 'string') return [`without control groups: ${found}`]
  const missing = CONTROLLERS.filter(name => !found.controllers.includes(name))
  return missing.length === 0 ? [] : [`without control groups of ${missing.join(' and ')}`]
}

async function probe(): Promise<string | null> {
  if (process.platform !== 'linux') return 'it needs Linux'
  const needed = process.getuid?.() === 0 ? [...PROGRAMS, AS_ROOT] : PROGRAMS
  const missing = needed.filter(name => Bun.which(name, { PATH }) === null)
  if (missing.length > 0) return `${missing.join(', ')} must be installed`
  try {
    return await tryCommand()
  } catch (thrown) {
    return `namespaces cannot be used here: ${describe(thrown)}`
  }
}

async function tryCommand(): Promise<string | null> {
  const limits = { homeBytes: 1024 * 1024, memoryBytes: 1024 ** 3, processes: 16, cpus: 1 }
  const box = await BubblewrapBox.open(limits)
  try {
    const { exitCode, stderr } = await box.try('true')
    return exitCode === 0 ? null : `namespaces cannot be used here: ${stderr.trim().slice(0, 200)}`
  } finally {
    await box.close()
  }
}

const describe = (thrown: unknown): string =>
  thrown instanceof Error ? thrown.message.trim().slice(0, 200) : 'unknown'

/** Returns a command line as the user that may do least. */
const asNobody = (command: string[]): string[] =>
  process.getuid?.() === 0
    ? [
        ...[AS_ROOT, `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'],
        ...['--no-new-privs', '--', ...command],
      ]
    : command

/** Returns a command line as that user, in the control group of its container if there is one. */
const enterGroup = (group: ControlGroup | undefined, command: string[]): string[] =>
  group ? group.enter(asNobody(command)) : asNobody(command)

/** The directories of a container’s own file system, where its holder sees it. */
const BOX = '/tmp'

/**
 * What the holder does: it makes a file system with a size and a number of entries, and waits until
 * the gateway closes its input, which the kernel does for a gateway that was killed. Commands see
 * the parts of it that are bound into their own namespace.
 */
const buildHolderScript = ({ homeBytes }: SandboxLimits): string => `
set -e
echo 1000 > /proc/self/oom_score_adj || true
umask 077
mount -t tmpfs -o size=${homeBytes},nr_inodes=${MOST_ENTRIES},mode=0700,nosuid,nodev box ${BOX}
cd ${BOX}
mkdir home tmp shm etc
echo 'sandbox:x:1000:1000::${HOME}:/bin/bash' > etc/passwd
echo 'sandbox:x:1000:' > etc/group
echo '127.0.0.1 localhost' > etc/hosts
echo "$FILTER" | base64 -d > etc/filter
echo "$RUN" > etc/run
echo "$RUN_ONLINE" > etc/run-online
echo "$FORWARDER" > etc/forwarder
echo ready
exec cat > /dev/null
`

/** The program that hands connections of commands on to the proxy. */
const PROGRAM = '/run/forwarder'

/** What starts one command. Its arguments are the limits of its processes and its words. */
function buildRunScript(
  { memoryBytes, processes }: SandboxLimits,
  isFiltered: boolean,
  network?: SandboxNetwork,
): string {
  const proxy = `http://127.0.0.1:${PROXY_PORT}`
  const names = ['http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY']
  const way = network
    ? [
        ...[
          `--bind ${network.socket} ${PROXY_SOCKET}`,
          `--ro-bind ${BOX}/etc/forwarder ${PROGRAM}`,
        ],
        ...names.map(name => `--setenv ${name} ${proxy}`),
        ...['no_proxy', 'NO_PROXY'].map(name => `--setenv ${name} localhost,127.0.0.1`),
        ...['/etc/ssl', '/etc/ca-certificates'].map(path => `--ro-bind-try ${path} ${path}`),
      ]
    : []
  const options = [
    ...['--unshare-all', '--unshare-user', '--disable-userns', '--uid 1000', '--gid 1000'],
    ...['--hostname sandbox', '--die-with-parent', '--new-session', '--clearenv'],
    ...['--cap-drop ALL', '--info-fd 4', isFiltered ? '--seccomp 3' : ''],
    ...['--ro-bind /usr /usr', '--symlink usr/bin /bin', '--symlink usr/sbin /sbin'],
    ...['--symlink usr/lib /lib', '--symlink usr/lib64 /lib64'],
    ...['--ro-bind-try /etc/alternatives /etc/alternatives'],
    ...['--ro-bind-try /etc/ld.so.cache /etc/ld.so.cache'],
    ...['passwd', 'group', 'hosts'].map(name => `--ro-bind ${BOX}/etc/${name} /etc/${name}`),
    ...[
      '--proc /proc',
      ...listHidden(),
      '--dev /dev',
      `--bind ${BOX}/shm /dev/shm`,
      '--remount-ro /dev',
    ],
    ...[`--bind ${BOX}/tmp /tmp`, `--bind ${BOX}/home ${HOME}`, ...way, '--remount-ro /'],
    ...[`--chdir ${HOME}`, `--setenv HOME ${HOME}`, '--setenv USER sandbox'],
    ...['--setenv PATH /usr/local/bin:/usr/bin:/bin', '--setenv LANG C.UTF-8'],
    ...['--setenv SHELL /bin/bash', '--setenv TERM dumb'],
  ]
  const limits = [
    ...[`--nproc=${processes}`, '--nofile=256', '--core=0', '--memlock=65536'],
    ...[`--as=${memoryBytes}`, `--fsize=${LARGEST_OUTPUT_FILE}`, '--msgqueue=0'],
    ...['--sigpending=1024', '--cpu=$seconds'],
  ]
  return [
    'seconds=$1; shift',
    // Where memory runs out, the kernel ends commands before anything else.
    '{ echo 1000 > /proc/self/oom_score_adj; } 2>/dev/null || true',
    // What may be left of the last command is not to be found by this one.
    `exec bwrap ${options.join(' ')} -- nice -n 10 prlimit ${limits.join(' ')} -- ${network ? `${FORWARDS} ${PROGRAM}` : ''} "$@" 3<${BOX}/etc/filter`,
  ].join('\n')
}

/** What a kernel tells of its host in files that are the same in every sandbox. */
const OF_HOST = ['cmdline', 'config.gz', 'kallsyms', 'key-users', 'keys', 'modules', 'timer_list']

/** Lists the options that make such files empty, as far as the kernel has them. */
const listHidden = (): string[] =>
  OF_HOST.map(name => `/proc/${name}`)
    .filter(path => existsSync(path))
    .map(path => `--ro-bind /dev/null ${path}`)

/** What runs in a sandbox, to its end. */
interface Started {
  command: string[]
  timeoutMs: number
  stdin?: ReadableStream<Uint8Array> | Uint8Array
  /** Whether it may have the network of its box. What the gateway does itself needs none. */
  isOnline?: boolean
  cancellation?: Cancellation
}

class BubblewrapBox implements SandboxBox {
  isGone = false
  readonly #holder: Bun.Subprocess<'pipe', 'pipe', 'pipe'>
  readonly ended: Promise<void>
  readonly #hasNetwork: boolean
  readonly #group: ControlGroup | undefined
  #ending: Promise<void> | undefined
  readonly #running = new Map<Bun.Subprocess, Promise<number | null>>()

  private constructor(
    holder: Bun.Subprocess<'pipe', 'pipe', 'pipe'>,
    hasNetwork: boolean,
    group: ControlGroup | undefined,
  ) {
    this.#holder = holder
    this.#hasNetwork = hasNetwork
    this.#group = group
    this.ended = holder.exited.then(() => this.#end())
  }

  static async open(limits: SandboxLimits, network?: SandboxNetwork): Promise<BubblewrapBox> {
    groups ??= openControlGroups()
    const group = typeof groups === 'string' ? undefined : ControlGroup.make(groups, limits)
    try {
      const holder = await startHolder(limits, network, group)
      return new BubblewrapBox(holder, network !== undefined, group)
    } catch (thrown) {
      await group?.end()
      throw thrown
    }
  }

  async run(command: SandboxCommand): Promise<CommandResult> {
    const { text, timeoutMs, maxOutput, cancellation } = command
    const started = { command: ['bash', '-c', text], timeoutMs, cancellation, isOnline: true }
    return this.#runToEnd(started, maxOutput)
  }

  /** Runs a command with nothing to wait for but itself. */
  try(text: string): Promise<CommandResult> {
    return this.#runToEnd({ command: ['bash', '-c', text], timeoutMs: OWN_TIMEOUT }, 1_000)
  }

  async write(files: AsyncIterable<WrittenFile>): Promise<void> {
    const { exitCode, stderr } = await this.#runToEnd(
      {
        // A file replaces whatever has its name, and follows no link that a command has made.
        command: ['tar', '-x', '--no-same-owner', '--recursive-unlink', '-f', '-'],
        timeoutMs: OWN_TIMEOUT,
        stdin: toStream(writeTar(files)),
      },
      1_000,
    )
    if (exitCode !== 0) throw new Error(`The files did not fit into the home: ${stderr.trim()}`)
  }

  async list(): Promise<HomeListing> {
    const pieces: Uint8Array[] = []
    const command = ['find', '.', '-mindepth', '1', '-not', '-type', 'd', '-printf', FORMAT]
    for await (const piece of this.#stream({ command, timeoutMs: OWN_TIMEOUT })) pieces.push(piece)
    return readListing(Buffer.concat(pieces))
  }

  read(files: ListedFile[]): AsyncIterable<Uint8Array> {
    const names = Buffer.from(files.map(({ path }) => `./${path}\0`).join(''))
    const command = ['xargs', '-0', '-r', 'cat', '--']
    return this.#stream({ command, timeoutMs: OWN_TIMEOUT, stdin: names })
  }

  async close(): Promise<void> {
    this.#end()
    this.#holder.kill('SIGKILL')
    const running = [...this.#running.keys()]
    await Promise.all([this.#holder.exited, ...running.map(one => one.exited)])
    await this.#ending
  }

  #end(): void {
    this.isGone = true
    for (const [one, init] of this.#running) void killWhole(one, init)
    this.#ending ??= this.#group?.end()
  }

  #start({ command, timeoutMs, stdin, isOnline = false }: Started) {
    const script = isOnline && this.#hasNetwork ? 'run-online' : 'run'
    if (this.isGone) throw new SandboxGone()
    const seconds = String(Math.ceil(timeoutMs / 1000) + 1)
    const started = Bun.spawn(
      enterGroup(this.#group, [
        ...['nsenter', `--target=${this.#holder.pid}`, '--user', '--mount'],
        ...['--preserve-credentials', '--', 'bash', `${BOX}/etc/${script}`, seconds, ...command],
      ]),
      {
        stdio: [stdin ?? 'ignore', 'pipe', 'pipe', 'ignore', 'pipe'],
        ...{ cwd: '/', env: { PATH } },
      },
    )
    const init = readInit(started)
    this.#running.set(started, init)
    void started.exited.then(() => this.#running.delete(started))
    return { started, init, end: awaitEnd(started, init) }
  }

  async #runToEnd(started: Started, maxOutput: number): Promise<CommandResult> {
    const { started: running, init, end } = this.#start(started)
    const watch = new Watch(running, init, started)
    const stdout = new OutputText(maxOutput)
    const stderr = new OutputText(maxOutput)
    const take = async (stream: ReadableStream<Uint8Array>, text: OutputText) => {
      for await (const bytes of stream) {
        text.push(bytes)
        if (stdout.bytes + stderr.bytes > MOST_OUTPUT_BYTES) watch.end('endless')
      }
    }
    try {
      await Promise.all([take(running.stdout, stdout), take(running.stderr, stderr)])
      await end
    } finally {
      watch.close()
    }
    this.#throwIfGone(started)
    const exitCode = watch.why === 'late' ? null : (running.exitCode ?? KILLED)
    return { stdout: stdout.finish(), stderr: stderr.finish() + watch.describe(), exitCode }
  }

  async *#stream(started: Started): AsyncIterable<Uint8Array> {
    const { started: running, init, end } = this.#start(started)
    const watch = new Watch(running, init, started)
    const errors = new Response(running.stderr).text()
    try {
      for await (const bytes of running.stdout) yield bytes
      await Promise.all([end, errors])
    } finally {
      watch.close()
      await killWhole(running, init)
      await end
    }
    this.#throwIfGone(started)
  }

  #throwIfGone({ cancellation }: Started): void {
    if (cancellation?.reason) throw cancellation.reason
    if (this.isGone) throw new SandboxGone()
  }
}

/** Starts the process that holds a home. Throws what prevents it. */
async function startHolder(
  limits: SandboxLimits,
  network: SandboxNetwork | undefined,
  group: ControlGroup | undefined,
): Promise<Bun.Subprocess<'pipe', 'pipe', 'pipe'>> {
  const filter = buildSeccompFilter()
  const holder = Bun.spawn(
    enterGroup(group, [
      ...['unshare', '--user', '--map-root-user', '--mount', '--propagation', 'private'],
      ...['--', 'bash', '-c', buildHolderScript(limits)],
    ]),
    {
      ...{ stdin: 'pipe', stdout: 'pipe', stderr: 'pipe', cwd: '/' },
      env: {
        PATH,
        RUN: buildRunScript(limits, filter !== null),
        RUN_ONLINE: network ? buildRunScript(limits, filter !== null, network) : '',
        FORWARDER: network ? FORWARDER : '',
        FILTER: filter?.toString('base64') ?? '',
      },
    },
  )
  await awaitReady(holder)
  return holder
}

/** The longest time of what the gateway does in a container itself, in milliseconds. */
const OWN_TIMEOUT = 60_000

/** What a shell answers for a command that a signal has killed. */
const KILLED = 137

/** Ends a command that takes too long, prints too much, or is not wanted any more. */
class Watch {
  why: 'late' | 'endless' | 'cancelled' | null = null
  readonly #running: Bun.Subprocess
  readonly #init: Promise<number | null>
  readonly #cancellation: Cancellation | undefined
  readonly #timer: Timer

  constructor(
    running: Bun.Subprocess,
    init: Promise<number | null>,
    { timeoutMs, cancellation }: Started,
  ) {
    this.#running = running
    this.#init = init
    this.#cancellation = cancellation
    this.#timer = setTimeout(() => this.end('late'), timeoutMs)
    cancellation?.listen(() => this.end('cancelled'))
  }

  /** Kills it: the kernel kills everything in its namespace with it. */
  end(why: NonNullable<Watch['why']>): void {
    this.why ??= why
    void killWhole(this.#running, this.#init)
  }

  close(): void {
    clearTimeout(this.#timer)
    if (!this.#cancellation?.reason) this.#cancellation?.listen(null)
  }

  describe(): string {
    return this.why === 'endless' ? '\n[It was ended, as it printed without end.]' : ''
  }
}

/**
 * Awaits the end of a command and of everything in its namespace: bubblewrap itself is gone a moment
 * before what it has killed.
 */
async function awaitEnd(started: Bun.Subprocess, init: Promise<number | null>): Promise<void> {
  await started.exited
  const pid = await init
  while (pid !== null && (await isAlive(pid))) await Bun.sleep(1)
}

/**
 * Kills a command and everything in its namespace. The first process of that goes before bubblewrap:
 * one that has just begun does not yet follow its parent.
 */
async function killWhole(running: Bun.Subprocess, init: Promise<number | null>): Promise<void> {
  const pid = await init
  if (running.exitCode !== null || running.signalCode !== null) return
  if (pid !== null && (await isAlive(pid))) tryToKill(pid)
  running.kill('SIGKILL')
}

// It may have ended just now.
function tryToKill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {}
}

/** Returns the first process of a command’s namespace; null if there was none. */
async function readInit({ stdio: [, , , , fd] }: Bun.Subprocess): Promise<number | null> {
  if (typeof fd !== 'number') return null
  const said = await Bun.file(fd)
    .text()
    .catch(() => '')
  // Nothing else closes it.
  closeSync(fd)
  const pid = /"child-pid": *(\d+)/.exec(said)?.[1]
  return pid === undefined ? null : Number(pid)
}

// What is only waiting for its parent has nothing any more, and neither has anything below it.
async function isAlive(pid: number): Promise<boolean> {
  const stat = await Bun.file(`/proc/${pid}/stat`)
    .text()
    .catch(() => '')
  const state = stat.slice(stat.lastIndexOf(')') + 2)[0]
  return state !== undefined && state !== 'Z' && state !== 'X'
}

async function awaitReady(holder: Bun.Subprocess<'pipe', 'pipe', 'pipe'>): Promise<void> {
  const reader = holder.stdout.getReader()
  const { value } = await reader.read()
  reader.releaseLock()
  if (value && Buffer.from(value).toString().startsWith('ready')) return
  holder.kill('SIGKILL')
  throw new Error(await new Response(holder.stderr).text())
}

/** Of every entry: its type, size, change, permissions, inode and path. Paths have no NUL. */
const FORMAT = '%y %s %C@ %m %i %P\\0'
const ENTRY = /^(\S) (\d+) (\S+) ([0-7]+) (\d+) (.+)$/s

function readListing(bytes: Buffer): HomeListing {
  const files: ListedFile[] = []
  let left = 0
  for (let from = 0; from < bytes.length; ) {
    const until = bytes.indexOf(0, from)
    const file = readEntry(bytes.subarray(from, until === -1 ? bytes.length : until))
    if (file) files.push(file)
    else left += 1
    from = until === -1 ? bytes.length : until + 1
  }
  return { files, left }
}

function readEntry(bytes: Buffer): ListedFile | null {
  const text = bytes.toString()
  // What is no UTF-8 would not come back as the same name.
  if (!Buffer.from(text).equals(bytes)) return null
  const [, type, size, changed, mode, inode, path = ''] = ENTRY.exec(text) ?? []
  const permissions = Number.parseInt(mode ?? '', 8)
  const isReadable = (permissions & 0o400) !== 0
  if (type !== 'f' || !isReadable || !isHomePath(path)) return null
  return { path, size: Number(size), mode: permissions, version: `${changed} ${inode} ${size}` }
}

const BLOCK = 512

/** Writes files as a tar archive (POSIX.1-1988 with GNU’s long names), piece by piece. */
async function* writeTar(files: AsyncIterable<WrittenFile>): AsyncIterable<Uint8Array> {
  for await (const { path, mode, size, pieces } of files) {
    const name = Buffer.from(path)
    if (name.length > LONGEST_NAME) {
      yield renderHeader(Buffer.from('././@LongLink'), 0, name.length, 'L')
      yield pad(name)
    }
    yield renderHeader(name.subarray(0, LONGEST_NAME), mode & 0o777, size, '0')
    yield* pieces
    yield new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK)
  }
  yield new Uint8Array(2 * BLOCK)
}

const LONGEST_NAME = 100

const pad = (bytes: Buffer): Buffer =>
  Buffer.concat([bytes, Buffer.alloc((BLOCK - (bytes.length % BLOCK)) % BLOCK)])

function renderHeader(name: Buffer, mode: number, size: number, type: string): Buffer {
  const header = Buffer.alloc(BLOCK)
  const octal = (value: number, digits: number) => value.toString(8).padStart(digits, '0')
  name.copy(header)
  header.write(octal(mode, 7), 100)
  header.write(octal(0, 7), 108)
  header.write(octal(0, 7), 116)
  header.write(octal(size, 11), 124)
  header.write(octal(0, 11), 136)
  header.write('        ', 148)
  header.write(type, 156)
  header.write('ustar  ', 257)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${octal(sum, 6)}\0 `, 148)
  return header
}

/** Converts pieces to a stream that takes one when it is asked for one. */
function toStream(pieces: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  const iterator = pieces[Symbol.asyncIterator]()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        // What enqueues nothing is not asked again.
        for (let step = await iterator.next(); ; step = await iterator.next()) {
          if (step.done) return controller.close()
          if (step.value.length > 0) return controller.enqueue(step.value)
        }
      },
      cancel: async () => void (await iterator.return?.()),
    },
    { highWaterMark: 0 },
  )
}
