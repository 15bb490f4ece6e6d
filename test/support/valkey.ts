import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { RedisClient } from 'bun'
import { findFreePort, isRoot, runQuietly } from './postgres.ts'

const findProgram = () => Bun.which('valkey-server') ?? Bun.which('redis-server')

/** Tells whether there is a Valkey or Redis. Installs Debian's if it may. */
export async function hasValkey(): Promise<boolean> {
  if (findProgram()) return true
  if (!isRoot() || !Bun.which('apt-get')) return false
  if (await runQuietly(['apt-get', 'update']))
    await runQuietly(['apt-get', 'install', '-y', '--no-install-recommends', 'redis-server'])
  return findProgram() !== null
}

/** A server of Valkey on this machine. Disposing of it ends the server and removes its data. */
export interface ValkeyServer extends AsyncDisposable {
  url: string
  readonly pid: number
  /** Runs a command as another program. */
  run(...command: string[]): Promise<unknown>
  /** Has the server stand still, or go on: its connections stay. */
  freeze(isFrozen: boolean): void
  /** Ends the server at once, as a kill of its machine would. */
  stop(): Promise<void>
  /** Starts it again, at the same place. */
  start(): Promise<void>
}

/** Starts a server of Valkey with these settings, which keeps nothing on disk. */
export async function startValkey(settings: Record<string, string> = {}): Promise<ValkeyServer> {
  const program = findProgram()
  if (!program) throw new Error('Neither Valkey nor Redis is installed')
  const directory = mkdtempSync(join(tmpdir(), 'gateway-valkey-'))
  const port = await findFreePort()
  const given = { bind: '127.0.0.1', port: String(port), dir: directory, save: '', ...settings }
  const options = Object.entries(given).flatMap(([name, value]) => [
    `--${name}`,
    ...value.split(' '),
  ])
  const launch = async () => {
    const server = Bun.spawn([program, ...options], {
      ...{ stdin: 'ignore', stdout: 'pipe', stderr: 'ignore' },
    })
    await untilReady(server.stdout)
    return server
  }
  let server = await launch()
  const login = settings.requirepass ? `:${settings.requirepass}@` : ''
  const url = `redis://${login}127.0.0.1:${port}`
  return {
    url,
    get pid() {
      return server.pid
    },
    async run(name, ...values) {
      const operator = new RedisClient(url)
      try {
        return await operator.send(name, values)
      } finally {
        operator.close()
      }
    },
    freeze: isFrozen => void server.kill(isFrozen ? 'SIGSTOP' : 'SIGCONT'),
    async stop() {
      server.kill('SIGKILL')
      await server.exited
    },
    async start() {
      server = await launch()
    },
    async [Symbol.asyncDispose]() {
      server.kill('SIGKILL')
      await server.exited
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

async function untilReady(log: ReadableStream<Uint8Array>): Promise<void> {
  const lines = new TextDecoderStream() as unknown as ReadableWritablePair<string, Uint8Array>
  const reader = log.pipeThrough(lines).getReader()
  let text = ''
  while (!/Ready to accept connections|Listening on/.test(text)) {
    const { value, done } = await reader.read()
    if (done) throw new Error(`The server did not start: ${text}`)
    text += value
  }
  // Read on, so that the server is never kept from writing.
  void (async () => {
    while (!(await reader.read()).done);
  })()
}
