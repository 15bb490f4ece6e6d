import { rmSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Subprocess } from 'bun'
import { createLimitedKey } from './chat.ts'
import { openDatabase } from './database.ts'
import { buildLocalConfig, PROGRAM, readAddress, type Server, startServer } from './server.ts'

/** The load under which servers take over from each other. */
export interface UpgradeLoad {
  /** How many streams run at any time, and the pieces and milliseconds of each. */
  streams: number
  chunks: number
  interval: number
  /** Whole calls a second, half of them on connections that are kept. */
  rate: number
}

/** What has become of the calls. Each of the last four is 0 if no upgrade was noticed. */
export interface UpgradeFigures {
  calls: number
  streams: number
  /** Calls that got no connection, or another status than 200. */
  refused: number
  /** Streams that broke off, or lack a piece. */
  cut: number
  /** Answered calls that are not on record, or not charged what their answer says. */
  lost: number
  /** Calls that are charged more than once, or that nobody has made. */
  twice: number
}

/** A server process beside the first. */
export interface Successor {
  child: Subprocess<'ignore', 'pipe', 'pipe'>
  /** Resolves with its address, or throws what it says when it does not start. */
  address: Promise<string>
  stderr: Promise<string>
}

/** Starts a server that takes over. */
export function startSuccessor(data: string, args: string[] = ['--port', '0']): Successor {
  const command = [...PROGRAM, 'serve', '--takeover', '--data', data, '--log', 'json', ...args]
  const child = Bun.spawn(command, { cwd: data, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
  const stderr = new Response(child.stderr).text()
  const address = readAddress(child, stderr)
  address.catch(() => undefined)
  return { child, address, stderr }
}

const START = resolve(import.meta.dir, '../../src/cli/start.ts')

/** Servers of one data directory under load, and a provider that answers their calls. */
export class UpgradeRig {
  readonly server: Server
  readonly key: string
  readonly figures: UpgradeFigures = { calls: 0, streams: 0, refused: 0, cut: 0, lost: 0, twice: 0 }
  /** What each answer says that it has cost, in nano-dollars, by its id. */
  readonly #costs = new Map<string, number>()
  readonly #load: UpgradeLoad
  readonly #upstream: Subprocess
  readonly #running = new Set<Promise<void>>()
  readonly #failures: string[] = []
  #isOver = false
  #timer: ReturnType<typeof setInterval> | undefined

  private constructor(load: UpgradeLoad, server: Server, key: string, upstream: Subprocess) {
    this.#load = load
    this.server = server
    this.key = key
    this.#upstream = upstream
  }

  static async open(load: UpgradeLoad, config: object = {}): Promise<UpgradeRig> {
    const upstream = Bun.spawn([process.execPath, START, 'bench-part', 'upstream'], {
      env: { ...process.env, CHUNKS: String(load.chunks), INTERVAL_MS: String(load.interval) },
      // It ends with its standard input.
      ...{ stdin: 'pipe', stdout: 'pipe', stderr: 'pipe' },
    })
    const url = await readAddress(upstream, new Response(upstream.stderr).text())
    const server = await startServer({
      config: { ...buildLocalConfig(url), ...config },
      args: ['--no-access-log'],
    })
    return new UpgradeRig(load, server, await createLimitedKey(server, 1_000), upstream)
  }

  /** Returns what has failed since the last time, the first of it. */
  takeFailures(): string[] {
    return this.#failures.splice(0).slice(0, 10)
  }

  /** Begins the load. */
  start(): void {
    const { streams, rate } = this.#load
    for (let i = 0; i < streams; i++) this.#run(this.#keepStreaming())
    let due = 0
    this.#timer = setInterval(() => {
      for (due += (rate * TICK) / 1000; due >= 1; due--) this.#run(this.#call(this.figures.calls++))
    }, TICK)
  }

  /** Ends the load, when every call has ended. */
  async finish(): Promise<void> {
    this.#isOver = true
    clearInterval(this.#timer)
    await Promise.all(this.#running)
  }

  /** Compares what was answered with what is on record. No server may run. */
  compareBooks(): UpgradeFigures {
    const db = openDatabase(this.server.data, { readonly: true })
    const charges = db
      .query<{ id: string; nanos: number }, []>('select id, nanos from ledger')
      .all()
    const ids = db.query<{ id: string }, []>('select id from generations').all()
    db.close()
    const recorded = new Set(ids.map(({ id }) => id))
    const charged = Map.groupBy(charges, ({ id }) => id)
    for (const [id, nanos] of this.#costs) {
      const of = charged.get(id) ?? []
      const sum = of.reduce((total, row) => total + row.nanos, 0)
      if (!recorded.has(id) || sum < nanos) this.figures.lost += 1
      else if (of.length > 1 || sum > nanos) this.figures.twice += 1
    }
    for (const id of charged.keys()) if (!recorded.has(id)) this.figures.twice += 1
    return this.figures
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true
    clearInterval(this.#timer)
    this.#upstream.kill('SIGKILL')
    this.server.process.kill('SIGKILL')
    await this.server.process.exited
    rmSync(this.server.data, { recursive: true, force: true })
  }

  #run(work: Promise<void>): void {
    const running = work.finally(() => this.#running.delete(running))
    this.#running.add(running)
  }

  async #keepStreaming(): Promise<void> {
    while (!this.#isOver) await this.#stream()
  }

  async #call(number: number): Promise<void> {
    try {
      const response = await this.#send({ stream: false }, number % 2 === 0)
      const { id, usage, error } = await response.json()
      if (response.status === 200) this.#note(id, usage.cost)
      else this.#fail('refused', `call ${number}: ${response.status} ${error?.message}`)
    } catch (thrown) {
      this.#fail('refused', `call ${number}: ${thrown}`)
    }
  }

  async #stream(): Promise<void> {
    this.figures.streams += 1
    const answer = await this.#send({ stream: true }, false).catch(thrown => String(thrown))
    if (typeof answer === 'string' || answer.status !== 200) {
      this.#fail('refused', `stream: ${typeof answer === 'string' ? answer : answer.status}`)
      return void (await Bun.sleep(TICK))
    }
    try {
      this.#check(await answer.text())
    } catch (thrown) {
      this.#fail('cut', `stream: ${thrown}`)
    }
  }

  #check(text: string): void {
    const events = text.split('\n\n').filter(event => event.startsWith('data: '))
    const chunks = events.slice(0, -1).map(event => JSON.parse(event.slice(6)))
    const pieces = chunks.filter(({ choices }) => choices?.[0]?.delta.content)
    const cost = chunks.find(({ usage }) => usage)?.usage.cost
    const isWhole = events.at(-1) === 'data: [DONE]' && pieces.length === this.#load.chunks
    if (!isWhole || cost === undefined)
      this.#fail('cut', `${pieces.length} pieces: ${events.at(-1)}`)
    else this.#note(chunks[0].id, cost)
  }

  #note(id: string, cost: number): void {
    this.#costs.set(id, Math.round(cost * 1e9))
  }

  #fail(what: 'refused' | 'cut', why: string): void {
    this.figures[what] += 1
    this.#failures.push(`${what}: ${why}`)
  }

  #send(fields: object, keepalive: boolean): Promise<Response> {
    const headers = { authorization: `Bearer ${this.key}`, 'content-type': 'application/json' }
    const messages = [{ role: 'user', content: 'Hi' }]
    return fetch(`${this.server.base}/chat/completions`, {
      ...{ method: 'POST', keepalive, headers },
      body: JSON.stringify({ model: 'acme/small', max_tokens: 2_000, messages, ...fields }),
    })
  }
}

/** In milliseconds, between two groups of calls. */
const TICK = 10
