import { existsSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { invalid } from '../../../base/errors.ts'
import type { Config } from '../../../config.ts'
import type { ConfigFile } from '../../config-file.ts'
import { getDataDirectory, listWorkers, locateWorker } from '../../data-directory.ts'
import { createLog, type Log, openLineWriter } from '../../log.ts'
import { printFailure, write } from '../../output.ts'
import { findProgram } from '../../own-program.ts'
import { explainListen, findAddressFlag, type ListenPlace, type ServeOptions } from './place.ts'
import { hasTerminal, STOP_TIME, waitForStop } from './stop.ts'
import { notifySystemd, takeSystemdSocket } from './systemd.ts'
import { SETTLED } from './worker.ts'

/** What several servers are started with. */
interface Start {
  options: ServeOptions
  configFile: ConfigFile
  place: ListenPlace
  /** Locks the data directory, as long as what unlocks it is kept. */
  lock(): () => void
}

/**
 * Runs several servers behind one port, each a process with a data directory of its own beneath
 * this one, and ends this process when they have ended. One that dies is started again, and so is
 * one that is silent for long, which is killed. Throws 400 where there can only be one server.
 */
export async function superviseWorkers({
  options,
  configFile,
  place,
  lock,
}: Start): Promise<never> {
  requireShared(configFile.config.storage)
  if (process.platform !== 'linux')
    throw invalid('--workers: on Linux only: no other kernel spreads connections over processes')
  if (await takeSystemdSocket(findAddressFlag(options)))
    throw invalid('--workers: each opens the port itself: start it without the socket of systemd')
  const count = options.workers === 'auto' ? countCores() : (options.workers ?? 1)
  const unlock = lock()
  const port = await findPort(place)
  const write = openLineWriter(Bun.stderr.writer(), () => undefined)
  const { log: format, logLevel: level } = options
  const log = createLog({ format, level, now: () => new Date(), write })
  const flags = ['--port', String(port), '--workers', String(count)]
  return new Workers(count, flags, { log, options, unlock }).run()
}

/** Throws 400 where no second server can reach what one of them has. */
function requireShared({ postgres, files }: Config['storage']): void {
  const missing = [
    ...(postgres ? [] : ['storage.postgres']),
    ...(files === 's3' ? [] : ['storage.files: s3']),
  ]
  if (missing.length > 0)
    throw invalid(`--workers: expected ${missing.join(' and ')}, so that all reach what one has`)
}

const CORES_OF_CONTAINER = '/sys/fs/cgroup/cpu.max'

/** Counts the cores that this process may use: the machine's, or its container's. */
function countCores(): number {
  const limit = existsSync(CORES_OF_CONTAINER) ? readFileSync(CORES_OF_CONTAINER, 'utf8') : ''
  const [quota, period] = limit.trim().split(' ').map(Number)
  const share = quota && period ? Math.ceil(quota / period) : Number.POSITIVE_INFINITY
  return Math.min(availableParallelism(), share, MOST)
}

/** A larger machine has its own idea of how many there should be. */
const MOST = 64

/**
 * Finds the port that all listen on. Throws where another program listens there: the kernel would
 * spread connections over its processes, too.
 */
async function findPort(place: ListenPlace): Promise<number> {
  const { host: hostname, port } = place
  const fetch = () => new Response()
  const server = explainListen(place, () =>
    Bun.serve({ hostname, port, reusePort: false, development: false, fetch }),
  )
  const found = server.port ?? port
  await server.stop(true)
  return found
}

type Child = Bun.Subprocess<'pipe', 'pipe', 'inherit'>

/** In milliseconds: between the end of a worker and its next start, which doubles with each. */
const FIRST_PAUSE = 100
const LONGEST_PAUSE = 30_000
/** In milliseconds: one that lived for so long has started well. */
const CALM = 60_000

/** In seconds: what is silent for longer is killed. */
const SILENCE = 90

/** In milliseconds: between two looks at who was silent for how long. */
const LOOK = 1_000
/** In milliseconds: with fewer looks, this process has not heard what was said either. */
const LONGEST_LOOK = 5_000

const RESTART = 'it is started again, after pauses that grow, and settles what it has left'

/** How long others were silent while this process could hear them, by its steady clock. */
export class Attention<Speaker> {
  readonly #heardAt = new Map<Speaker, number>()
  readonly #silence: number
  #lookedAt: number

  /** Milliseconds: what is silent for longer is found. */
  constructor(silence: number, now: number) {
    this.#silence = silence
    this.#lookedAt = now
  }

  hear(speaker: Speaker, now: number): void {
    this.#heardAt.set(speaker, now)
  }

  forget(speaker: Speaker): void {
    this.#heardAt.delete(speaker)
  }

  /** Lists who has said nothing for long. All have the whole time again after a pause of this process. */
  look(now: number): Speaker[] {
    if (now - this.#lookedAt > LONGEST_LOOK)
      for (const speaker of this.#heardAt.keys()) this.hear(speaker, now)
    this.#lookedAt = now
    return [...this.#heardAt].flatMap(([speaker, heardAt]) =>
      now - heardAt > this.#silence ? speaker : [],
    )
  }
}

/** The servers of one port, as their parent sees them. */
class Workers {
  readonly #numbers: number[]
  readonly #flags: string[]
  readonly #log: Log
  readonly #options: ServeOptions
  readonly #unlock: () => void
  readonly #running = new Map<number, Child>()
  readonly #serving = new Set<Child>()
  /** In seconds. */
  readonly #silence: number
  readonly #attention: Attention<Child>
  readonly #stopped = waitForStop(() => this.#endAtOnce())
  #isStopping = false

  constructor(
    count: number,
    flags: string[],
    { log, options, unlock }: Pick<Start, 'options'> & { log: Log; unlock(): void },
  ) {
    this.#numbers = Array.from({ length: count }, (_, i) => i + 1)
    this.#flags = flags
    this.#log = log
    this.#options = options
    this.#unlock = unlock
    this.#silence = options.workerSilence ?? SILENCE
    this.#attention = new Attention(this.#silence * 1000, performance.now())
  }

  async run(): Promise<never> {
    this.#passHangups()
    const stopped = this.#stopped.then(() => null)
    const started = await Promise.race([this.#startAll(), stopped])
    if (started !== null) {
      await write(started)
      await notifySystemd(`READY=1\nMAINPID=${process.pid}`).catch(() => undefined)
      for (const worker of this.#numbers) void this.#keep(worker)
      setInterval(() => this.#endSilent(), LOOK)
      await this.#stopped
    }
    await notifySystemd('STOPPING=1').catch(() => undefined)
    return this.#stop(0)
  }

  /** Starts all. Resolves with what the first has printed. Ends this process where one cannot start. */
  // What prevents one from starting mostly prevents all, and is then said once.
  async #startAll(): Promise<string> {
    const [first = 1, ...others] = this.#numbers
    const printed = await this.#launchFirst(first)
    if (this.#isStopping) return printed
    const settled = settleWorkers(getDataDirectory(this.#options), this.#numbers.length)
    try {
      await Promise.all([settled, ...others.map(worker => this.#launchFirst(worker))])
      return printed
    } catch (thrown) {
      return this.#stop(printFailure(thrown))
    }
  }

  async #launchFirst(worker: number): Promise<string> {
    const printed = await this.#launch(worker)
    if (printed !== null || this.#isStopping) return printed ?? ''
    const code = await this.#running.get(worker)?.exited
    this.#running.delete(worker)
    return this.#stop(code || 1)
  }

  /** Starts one. Resolves with what it has printed once it serves; null if it ends before that. */
  async #launch(worker: number): Promise<string | null> {
    const child = spawnWorker([...this.#flags, '--worker-number', String(worker)])
    this.#running.set(worker, child)
    const printed = await readStart(child.stdout, () =>
      this.#attention.hear(child, performance.now()),
    )
    if (printed !== null) this.#serving.add(child)
    return printed
  }

  // Its share of the connections would wait for good.
  #endSilent(): void {
    const silent = new Set(this.#attention.look(performance.now()))
    for (const [worker, child] of this.#running) {
      if (!silent.has(child)) continue
      this.#attention.forget(child)
      const facts = { worker, pid: child.pid, seconds: this.#silence }
      this.#log('error', 'worker.silent', { ...facts, consequence: 'it is killed' })
      child.kill('SIGKILL')
    }
  }

  /** Starts one again whenever it has ended. What ends again and again is told once. */
  async #keep(worker: number): Promise<void> {
    let pause = FIRST_PAUSE
    const told = new Set<string>()
    const tellOnce = (event: string, tell: () => void) => {
      if (!told.has(event)) tell()
      told.add(event)
    }
    for (let startedAt = performance.now(); !this.#isStopping; ) {
      const child = this.#running.get(worker) as Child
      await child.exited
      this.#serving.delete(child)
      this.#attention.forget(child)
      if (this.#isStopping) return
      if (performance.now() - startedAt > CALM) {
        pause = FIRST_PAUSE
        told.clear()
      }
      tellOnce('ended', () => this.#tellEnd(worker, child, RESTART))
      await Promise.race([Bun.sleep(pause), this.#stopped])
      if (this.#isStopping) return
      pause = Math.min(pause * 2, LONGEST_PAUSE)
      startedAt = performance.now()
      if ((await this.#launch(worker)) !== null)
        tellOnce('restarted', () => this.#tellRestart(worker))
    }
  }

  #tellRestart(worker: number): void {
    this.#log('info', 'worker.restarted', { worker, pid: this.#running.get(worker)?.pid })
  }

  #tellEnd(worker: number, { pid, exitCode, signalCode }: Child, consequence: string): void {
    const end = signalCode ? { signal: signalCode } : { code: exitCode }
    this.#log('warn', 'worker.ended', { worker, pid, ...end, consequence })
  }

  // The config is read by each of them. Where the terminal was closed, each has heard of it.
  #passHangups(): void {
    const hadTerminal = process.stderr.isTTY
    process.on('SIGHUP', () => {
      if (hadTerminal && !hasTerminal()) process.kill(process.pid, 'SIGTERM')
      else for (const child of this.#serving) child.kill('SIGHUP')
    })
  }

  /**
   * Has all finish their answers, and ends this process with their end. No signal is sent to one
   * that serves: a terminal and systemd send it to each process, and the second ends at once.
   */
  async #stop(code: number): Promise<never> {
    this.#isStopping = true
    const serving = [...this.#running].filter(([, child]) => this.#serving.has(child))
    const children = [...this.#running.values()]
    for (const child of children) {
      letGo(child)
      if (!this.#serving.has(child)) child.kill('SIGTERM')
    }
    const overdue = setTimeout(() => this.#kill(), this.#options.drain * 1000 + STOP_TIME)
    await Promise.all(children.map(child => child.exited))
    clearTimeout(overdue)
    const ill = serving.filter(([, { exitCode }]) => exitCode !== 0)
    for (const [worker, child] of ill)
      this.#tellEnd(worker, child, 'the next start settles what it has left')
    this.#unlock()
    process.exit(code || (ill.length > 0 ? 1 : 0))
  }

  #endAtOnce(): never {
    this.#kill()
    process.exit(1)
  }

  #kill(): void {
    for (const child of this.#running.values()) child.kill('SIGKILL')
  }
}

/** Starts a server of this command line, and besides. It stops when this process lets go of its stdin. */
function spawnWorker(flags: string[]): Child {
  const { NOTIFY_SOCKET: _, ...env } = process.env
  return Bun.spawn([...findProgram(), ...process.argv.slice(2), ...flags], {
    ...{ env, stdin: 'pipe', stdout: 'pipe', stderr: 'inherit' },
  })
}

/** Has a server stop. */
function letGo({ stdin }: Child): void {
  try {
    void Promise.resolve(stdin.end()).catch(() => undefined)
  } catch {
    // It has ended already.
  }
}

/**
 * Reads what a server prints up to its address; null if it ends before. The rest only says that it
 * goes on.
 */
async function readStart(
  output: ReadableStream<Uint8Array>,
  onHeard: () => void,
): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>()
  const read = async () => {
    const decoder = new TextDecoder()
    let text = ''
    let isStarted = false
    for await (const bytes of output) {
      if (isStarted) {
        onHeard()
        continue
      }
      text += decoder.decode(bytes, { stream: true })
      isStarted = LISTENS.test(text)
      if (!isStarted) continue
      onHeard()
      resolve(text)
    }
    resolve(null)
  }
  void read()
  return promise
}

const LISTENS = /^(?:gateway listens on .*|\{.*"event":"listening".*\})\n/m

/**
 * Settles what servers beneath a data directory have left that are no longer started: those above
 * this number. Throws where that cannot be, as another one would miss what they have on lease.
 */
export async function settleWorkers(home: string, count: number): Promise<void> {
  for (const worker of listWorkers(home)) {
    const data = locateWorker(home, worker)
    if (worker <= count || existsSync(join(data, SETTLED))) continue
    const flags = count > 0 ? ['--workers', String(count)] : []
    const child = spawnWorker([...flags, '--worker-number', String(worker)])
    await new Response(child.stdout).text()
    if ((await child.exited) !== 0)
      throw new Error(
        `What a server has left in ${data} is not settled: start with --workers ${worker}, or ` +
          'gateway nodes forget its id (--ended) and remove the directory',
      )
  }
}
