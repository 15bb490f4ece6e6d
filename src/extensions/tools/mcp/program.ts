import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { RequestOptions } from '@modelcontextprotocol/sdk/shared/protocol.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { JSONRPCMessage, RequestId } from '@modelcontextprotocol/sdk/types.js'
import { hideCredentials } from '../../../base/credential.ts'
import { toPrintable } from '../../../base/printable.ts'
import type { Config } from '../../../config.ts'
import { hideSecrets } from '../../../network/clean-reason.ts'
import type { OwnProgram } from '../../../network/world.ts'
import { ToolFailure, type UseLimit } from '../use-limit.ts'
import { AnswerBudget } from './answer-budget.ts'
import { listSecrets, type McpProgram, type McpServer, readProgram } from './server.ts'
import type { Library, McpWorld } from './session.ts'

declare module '../../../base/events.ts' {
  interface EventMap {
    /** A program that is an MCP server has ended by itself, or was ended for what it did. */
    'mcp_program.ended': { label: string; reason: string; exit_code: number | null; stderr: string }
  }
}

/**
 * Runs work with a server that is a program of the operator. All uses share one process, which the
 * first one starts. Throws `ToolFailure` if it ends, or has ended too often to be started now.
 */
export async function runInProgram<T>(
  world: McpWorld,
  server: McpServer,
  limit: UseLimit,
  library: Library,
  work: (client: Client, options: RequestOptions) => Promise<T>,
): Promise<T> {
  const running = findRunning(world, server, library)
  const abort = new AbortController()
  const branch = limit.open()
  branch.listen(reason => {
    abort.abort(reason)
    if (reason.type === 'timeout') void running.requireLife(server.timeoutMilliseconds)
  })
  try {
    const client = await limit.race(running.ready)
    // The limit of the use ends a request; the library's own clock must not be first.
    return await work(client, { signal: abort.signal, timeout: server.timeoutMilliseconds * 2 })
  } catch (thrown) {
    if (running.endReason === null || thrown instanceof ToolFailure) throw thrown
    throw new ToolFailure(`The MCP server ${server.label} ${running.endReason}`)
  } finally {
    branch.listen(null)
    limit.release(branch)
  }
}

/** Finds the process of a server, or starts it. Throws `ToolFailure` while it has to wait. */
function findRunning(world: McpWorld, server: McpServer, library: Library): RunningServer {
  const { programs } = world.egress
  const known = programs.get(server.label)
  const before = known instanceof RunningServer && known.isSame(server.program) ? known : null
  if (before?.endReason === null) return before
  if (!before) void known?.end()
  const wait = before ? before.startAgainAt - world.clock.ticks() : 0
  if (wait > 0)
    throw new ToolFailure(
      `The MCP server ${server.label} ${before?.endReason}, and is started again in ` +
        `${Math.ceil(wait / 1000)} seconds`,
    )
  const running = new RunningServer(world, server, library, before?.failures ?? 0)
  programs.set(server.label, running)
  return running
}

/** A process that ran for longer, in milliseconds, was no failure when it ended. */
const LONG_RUN = 60_000
/** In milliseconds: how long a process that fails again waits, which doubles; and the most. */
const FIRST_PAUSE = 1_000
const LONGEST_PAUSE = 60_000

/** One process of a server. Once it has ended it says why, and when the next one may start. */
class RunningServer implements OwnProgram {
  /** The client of the process, once it has said what it is. */
  readonly ready: Promise<Client>
  /** Null while it runs. */
  endReason: string | null = null
  /** The ends in a row that came soon after the start. */
  failures: number
  /** In steady milliseconds. */
  startAgainAt = 0
  readonly #world: McpWorld
  readonly #server: McpServer
  readonly #transport: StdioTransport
  readonly #startedAt: number
  #isReady = false
  #examination: Promise<void> | null = null

  constructor(world: McpWorld, server: McpServer, library: Library, failures: number) {
    this.#world = world
    this.#server = server
    this.failures = failures
    this.#startedAt = world.clock.ticks()
    const most = world.config.mcp.max_answer_mib
    this.#transport = new StdioTransport(server.program as McpProgram, library, most, (...end) =>
      this.#noteEnd(...end),
    )
    this.ready = this.#connect(library.createClient())
    this.ready.catch(() => undefined)
  }

  async #connect(client: Client): Promise<Client> {
    try {
      await client.connect(this.#transport, { timeout: this.#server.timeoutMilliseconds })
      this.#isReady = true
      return client
    } catch (thrown) {
      await this.#transport.kill(NOT_STARTED)
      throw thrown
    }
  }

  isSame(program: McpProgram | null): boolean {
    return Bun.deepEquals(this.#server.program, program)
  }

  isWanted({ mcp_servers }: Config): boolean {
    const settings = mcp_servers[this.#server.label]
    return (
      settings !== undefined && settings.enabled !== false && this.isSame(readProgram(settings))
    )
  }

  end(): Promise<void> {
    const { programs } = this.#world.egress
    if (programs.get(this.#server.label) === this) programs.delete(this.#server.label)
    return this.#transport.end()
  }

  /** Ends the process unless it answers in time: it may hang as a whole, or only in one use. */
  requireLife(milliseconds: number): Promise<void> {
    this.#examination ??= this.#examine(milliseconds).finally(() => {
      this.#examination = null
    })
    return this.#examination
  }

  async #examine(timeout: number): Promise<void> {
    try {
      const client = await this.ready
      await client.ping({ timeout })
    } catch {
      await this.#transport.kill('gave no answer')
    }
  }

  #noteEnd(reason: string, isWanted: boolean, exitCode: number | null, stderr: string): void {
    if (this.endReason !== null) return
    this.endReason = reason === ENDED && !this.#isReady ? NOT_STARTED : reason
    if (isWanted) return
    const now = this.#world.clock.ticks()
    this.failures = now - this.#startedAt > LONG_RUN ? 1 : this.failures + 1
    // The first time may be chance.
    const pause = this.failures === 1 ? 0 : FIRST_PAUSE * 2 ** (this.failures - 2)
    this.startAgainAt = now + Math.min(pause, LONGEST_PAUSE)
    const { label } = this.#server
    this.#world.events.publish('mcp_program.ended', {
      ...{ label, reason: this.endReason, exit_code: exitCode },
      stderr: toPrintable(hideCredentials(hideSecrets(stderr, listSecrets(this.#server)))),
    })
  }
}

const NOT_STARTED = 'could not be started'
const ENDED = 'ended before it answered'

type NoteEnd = (reason: string, isWanted: boolean, exitCode: number | null, stderr: string) => void

const LINE_END = 0x0a
/** In milliseconds: how long a process may take to end when it is asked to. */
const LONGEST_END = 1_000
/** How much of what a process said last is kept, in bytes. */
const LONGEST_LAST_WORDS = 500

/** Speaks to a process over its stdin and stdout: a message is a line of JSON. */
class StdioTransport implements Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: (message: JSONRPCMessage) => void
  readonly #program: McpProgram
  readonly #library: Library
  /** In mebibytes: the most that a process sends from one answer to the next. */
  readonly #most: number
  #budget: AnswerBudget
  readonly #noteEnd: NoteEnd
  #child: Bun.Subprocess<'pipe', 'pipe', 'pipe'> | null = null
  /** What it was asked and has not answered. */
  readonly #asked = new Set<RequestId>()
  #lastWords = Buffer.alloc(0)
  #isEnded = false

  constructor(program: McpProgram, library: Library, most: number, noteEnd: NoteEnd) {
    this.#program = program
    this.#library = library
    this.#most = most
    this.#budget = new AnswerBudget(most)
    this.#noteEnd = noteEnd
  }

  async start(): Promise<void> {
    const { command, env, cwd } = this.#program
    const child = Bun.spawn(command, {
      ...{ stdin: 'pipe', stdout: 'pipe', stderr: 'pipe', cwd, env: buildEnvironment(env) },
      // A group of its own, which ends with all that it has started.
      detached: true,
    })
    this.#child = child
    const read = [this.#readMessages(child.stdout), this.#readLastWords(child.stderr)]
    void child.exited.then(async () => {
      signalGroup(child, 'SIGKILL')
      // What it said last may still be on its way, or a pipe be held by what has left the group.
      await waitFor(Promise.all(read), LONGEST_END)
      this.#finish(ENDED, false)
    })
  }

  async send(message: JSONRPCMessage): Promise<void> {
    if (!this.#child || this.#isEnded) throw new Error('It has ended')
    if ('method' in message && 'id' in message) this.#asked.add(message.id)
    try {
      this.#child.stdin.write(`${JSON.stringify(message)}\n`)
      await this.#child.stdin.flush()
    } catch (error) {
      // What has closed its input cannot be asked any more.
      await this.kill(ENDED)
      throw error
    }
  }

  /** Is called by the library for a process that does not begin as the protocol has it. */
  close(): Promise<void> {
    return this.kill(NOT_STARTED)
  }

  /** Ends the process as the protocol has it: its input ends, then it is asked to, then it is killed. */
  async end(): Promise<void> {
    const child = this.#child
    if (!child || this.#isEnded) return
    this.#finish('was stopped', true, false)
    await Promise.resolve(child.stdin.end()).catch(() => undefined)
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      await waitFor(child.exited, signal === 'SIGTERM' ? LONGEST_GOODBYE : LONGEST_END)
      signalGroup(child, signal)
    }
    await child.exited
  }

  /** Ends the process at once. */
  async kill(reason: string): Promise<void> {
    this.#finish(reason, false)
    await this.#child?.exited
  }

  #finish(reason: string, isWanted: boolean, isKilled = true): void {
    if (this.#isEnded) return
    this.#isEnded = true
    const child = this.#child
    if (child && isKilled) signalGroup(child, 'SIGKILL')
    this.#noteEnd(reason, isWanted, child?.exitCode ?? null, this.#lastWords.toString())
    this.onclose?.()
  }

  async #readMessages(stdout: ReadableStream<Uint8Array>): Promise<void> {
    let line: Uint8Array[] = []
    for await (const bytes of stdout) {
      if (this.#isEnded) continue
      if (!this.#budget.take(bytes)) void this.kill('sent too much')
      let from = 0
      for (let at = bytes.indexOf(LINE_END); at !== -1; at = bytes.indexOf(LINE_END, from)) {
        this.#take(Buffer.concat([...line, bytes.subarray(from, at)]).toString())
        line = []
        from = at + 1
      }
      line.push(bytes.subarray(from))
    }
  }

  // What is no message is left out: programs print there what they should not.
  #take(text: string): void {
    const { success, data: message } = this.#library.types.JSONRPCMessageSchema.safeParse(
      parseLine(text),
    )
    if (!success || this.#isEnded) return
    if (!('method' in message) && message.id !== undefined && this.#asked.delete(message.id))
      this.#budget = new AnswerBudget(this.#most)
    this.onmessage?.(message)
  }

  async #readLastWords(stderr: ReadableStream<Uint8Array>): Promise<void> {
    for await (const bytes of stderr)
      this.#lastWords = Buffer.concat([this.#lastWords, bytes]).subarray(-LONGEST_LAST_WORDS)
  }
}

/** The same, once the input of the process has ended. */
const LONGEST_GOODBYE = 500

/** What programs need to find others and their files, as sudo and the protocol's own clients have it. */
const INHERITED = ['HOME', 'LANG', 'PATH', 'TMPDIR', 'TZ']

const buildEnvironment = (own: Record<string, string>): Record<string, string> => ({
  ...Object.fromEntries(
    INHERITED.flatMap(name => {
      const value = process.env[name]
      return value === undefined ? [] : [[name, value]]
    }),
  ),
  ...own,
})

function signalGroup({ pid }: Bun.Subprocess, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal)
  } catch {
    // All of it has ended.
  }
}

async function waitFor(end: Promise<unknown>, milliseconds: number): Promise<void> {
  const over = Promise.withResolvers<void>()
  const timer = setTimeout(over.resolve, milliseconds)
  await Promise.race([end, over.promise])
  clearTimeout(timer)
}

function parseLine(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
