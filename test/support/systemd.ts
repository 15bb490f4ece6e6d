import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Subprocess } from 'bun'
import { type ListenerCalls, openListenerCalls } from '../../src/base/listener-calls.ts'
import { waitUntil } from './chat.ts'
import { readAddress } from './server.ts'

/** Opens a socket as systemd does: it listens, and nobody accepts. */
export async function openSocket() {
  const calls = (await openListenerCalls()) as ListenerCalls
  const opener = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    reusePort: false,
    fetch: () => new Response('test'),
  })
  const port = opener.port ?? 0
  const descriptor = calls.findListener(port) ?? -1
  calls.pause(descriptor)
  return { calls, opener, port, descriptor }
}

type Child = Subprocess<'ignore', 'pipe', 'pipe'>

/** What a unit says, with its drop-ins: the last value of each setting, as systemd has it. */
export interface Unit {
  start: string
  reload: string
  environment: Record<string, string>
}

/**
 * Does for one service what systemd would: opens its socket, starts it, reloads it and believes what
 * the service tells. Nothing is confined, and the user stays the same.
 */
export class StandInForSystemd implements AsyncDisposable {
  readonly port: number
  readonly #opened: Awaited<ReturnType<typeof openSocket>>
  readonly #mailbox: ReturnType<ListenerCalls['openMailbox']>
  readonly #notify: string
  readonly #children: Child[] = []
  #main: { pid: number; ended: Promise<unknown> } | undefined

  private constructor(opened: Awaited<ReturnType<typeof openSocket>>, notify: string) {
    this.#opened = opened
    this.#notify = notify
    this.#mailbox = opened.calls.openMailbox(notify)
    this.port = opened.port
  }

  static async open(directory: string): Promise<StandInForSystemd> {
    return new StandInForSystemd(await openSocket(), join(directory, 'notify'))
  }

  async start({ start, environment }: Unit): Promise<void> {
    const env = { ...environment, LISTEN_FDS: '1' }
    // The number of the process is known to itself first.
    const child = this.#spawn(`LISTEN_PID=$$ exec ${start}`, env, this.#opened.descriptor)
    await readAddress(child, new Response(child.stderr).text())
    this.#main = { pid: await this.#readMain(), ended: child.exited }
  }

  /** Reloads the service: what it starts tells that it is the service now, and the one before ends. */
  async reload({ reload, environment }: Unit): Promise<void> {
    const before = this.#main
    const child = this.#spawn(reload, environment)
    // Its pipe is open as long as what it has left in the background.
    const ended = new Response(child.stderr).text()
    await readAddress(child, ended)
    this.#main = { pid: await this.#readMain(), ended }
    await before?.ended
    if (this.#main.pid === before?.pid) throw new Error('Nothing has taken over')
    const further = this.#mailbox.receive()
    if (further) throw new Error(`The service before told ${further.text}`)
  }

  async stop(): Promise<void> {
    const main = this.#main
    if (!main) return
    process.kill(main.pid, 'SIGTERM')
    await main.ended
    this.#main = undefined
    if ((await this.#hear()) !== 'STOPPING=1') throw new Error('It did not say that it stops')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#main) process.kill(this.#main.pid, 'SIGKILL')
    for (const child of this.#children) child.kill('SIGKILL')
    this.#mailbox.close()
    await this.#opened.opener.stop(true)
  }

  async #readMain(): Promise<number> {
    const text = await this.#hear()
    const [, pid] = /^READY=1\nMAINPID=(\d+)$/.exec(text) ?? []
    if (pid === undefined) throw new Error(`The service told ${JSON.stringify(text)}`)
    return Number(pid)
  }

  /** Waits for the next thing that the service tells. */
  async #hear(): Promise<string> {
    let heard = this.#mailbox.receive()
    await waitUntil(() => {
      heard ??= this.#mailbox.receive()
      return heard !== null
    })
    return heard?.text ?? ''
  }

  #spawn(script: string, environment: Record<string, string>, descriptor?: number): Child {
    const child = Bun.spawn(['sh', '-c', script], {
      env: { ...process.env, ...environment, NOTIFY_SOCKET: this.#notify },
      stdio: ['ignore', 'pipe', 'pipe', ...(descriptor === undefined ? [] : [descriptor])],
    }) as Child
    this.#children.push(child)
    return child
  }
}

/** Reads a unit below a directory of units, with what its drop-ins add and replace. */
export function readUnit(directory: string, name: string): Unit {
  const dropIns = join(directory, `${name}.d`)
  const files = [join(directory, name), ...listFiles(dropIns)]
  const lines = files.flatMap(file => readFileSync(file, 'utf8').split('\n'))
  const values = (setting: string) =>
    lines.flatMap(line => (line.startsWith(`${setting}=`) ? [line.slice(setting.length + 1)] : []))
  return {
    start: values('ExecStart').at(-1) ?? '',
    reload: values('ExecReload').at(-1) ?? '',
    environment: Object.fromEntries(
      [...values('Environment'), ...values('EnvironmentFile').flatMap(readVariables)].map(line =>
        line.split(/=(.*)/s).slice(0, 2),
      ),
    ),
  }
}

function listFiles(directory: string): string[] {
  try {
    return readdirSync(directory).map(name => join(directory, name))
  } catch {
    return []
  }
}

const readVariables = (path: string): string[] =>
  readFileSync(path.replace(/^-/, ''), 'utf8')
    .split('\n')
    .filter(line => line !== '')
