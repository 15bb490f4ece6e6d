import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Subprocess } from 'bun'
import { type Gateway, type GatewayParts, openGateway } from '../../src/app/gateway.ts'
import { parseConfig } from '../../src/config.ts'
import { createFirstKeys as createKeys } from '../../src/resources/workspaces.ts'
import { listen, type RunningServer } from '../../src/server/listen.ts'
import { requireBooks, requireRest } from './resting-books.ts'
import { SHARED_WORKERS } from './workers.ts'

const ROOT = resolve(import.meta.dir, '../..')

/** The program from source. */
export const SOURCE: string[] = [process.execPath, 'run', join(ROOT, 'src/cli/start.ts')]

/** The program under test: the built binary if `GATEWAY_TEST_BINARY` names it, else the source. */
export const PROGRAM: string[] = process.env.GATEWAY_TEST_BINARY
  ? [resolve(ROOT, process.env.GATEWAY_TEST_BINARY)]
  : SOURCE

/** What a command printed and how it ended. */
export interface CommandResult {
  code: number
  stdout: string
  stderr: string
}

export interface RunOptions {
  env?: Record<string, string>
  /** The working directory; the system's temporary one by default. */
  cwd?: string
  stdin?: string
  /** How to run the program; `PROGRAM` by default. */
  program?: string[]
}

/** Runs one command of the program to its end. Its stdin is empty by default. */
export async function runGateway(
  args: string[],
  { env = {}, cwd = tmpdir(), stdin, program = PROGRAM }: RunOptions = {},
): Promise<CommandResult> {
  const input = stdin === undefined ? 'ignore' : Buffer.from(stdin)
  const child = Bun.spawn([...program, ...args], {
    cwd,
    env: { ...process.env, ...env },
    stdout: 'pipe',
    stderr: 'pipe',
    stdin: input,
  })
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { code, stdout, stderr }
}

export interface ServerOptions {
  /** The config file, as an object. */
  config?: Record<string, unknown>
  /** An existing data directory; a new one by default. */
  data?: string
  args?: string[]
  env?: Record<string, string>
  /** How to run the program; `PROGRAM` by default. */
  program?: string[]
}

/** The first keys of a gateway. */
interface FirstKeys {
  management_key: string
  inference_key: string
}

/** A gateway that listens on its own port. */
export class Listener {
  readonly url: string
  readonly management_key: string
  readonly inference_key: string

  constructor(url: string, { management_key, inference_key }: FirstKeys) {
    this.url = url
    this.management_key = management_key
    this.inference_key = inference_key
  }

  /** The base URL of the API. */
  get base(): string {
    return `${this.url}/api/v1`
  }

  /** Calls the API, by default with the inference key. */
  fetch(
    path: string,
    {
      key = this.inference_key,
      json,
      ...init
    }: RequestInit & { key?: string | null; json?: unknown } = {},
  ): Promise<Response> {
    const headers = new Headers(init.headers)
    if (key !== null) headers.set('authorization', `Bearer ${key}`)
    // A kept connection would delay the end of a server in this process.
    const sent = { keepalive: false, ...init, headers }
    if (json === undefined) return fetch(this.base + path, sent)
    headers.set('content-type', 'application/json')
    return fetch(this.base + path, { method: 'POST', ...sent, headers, body: JSON.stringify(json) })
  }
}

/** A gateway in its own process. */
export class Server extends Listener {
  readonly data: string
  /** Whether a test has changed what its books are about. */
  isTampered = false
  readonly process: Subprocess<'ignore', 'pipe', 'pipe'>
  readonly #stderr: Promise<string>

  constructor(
    data: string,
    url: string,
    keys: FirstKeys,
    child: Subprocess<'ignore', 'pipe', 'pipe'>,
    stderr: Promise<string>,
  ) {
    super(url, keys)
    this.data = data
    this.process = child
    this.#stderr = stderr
  }

  /** Stops it as an operator would, and returns its exit code and stderr. */
  async stop(): Promise<{ code: number; stderr: string }> {
    this.process.kill('SIGTERM')
    return { code: await this.process.exited, stderr: await this.#stderr }
  }

  /** Kills it as the kernel would. */
  async kill(): Promise<void> {
    this.process.kill('SIGKILL')
    await this.process.exited
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.process.exitCode === null) await this.kill()
    try {
      if (!this.isTampered) requireBooks(this.data, [this.management_key, this.inference_key])
    } finally {
      rmSync(this.data, { recursive: true, force: true })
    }
  }
}

/**
 * Starts a server on a free port. Disposing of it (`await using`) kills it, requires that its books
 * hold, and removes its data.
 */
export async function startServer({
  config = {},
  data,
  args = [],
  env = {},
  program = PROGRAM,
}: ServerOptions = {}): Promise<Server> {
  const directory = data ?? mkdtempSync(join(tmpdir(), 'gateway-test-'))
  const keys = await createFirstKeys(directory, env.GATEWAY_SECRET)
  writeFileSync(join(directory, 'gateway.yaml'), JSON.stringify(config))
  const command = [
    ...program,
    'serve',
    '--port',
    '0',
    '--data',
    directory,
    '--log',
    'json',
    ...args,
  ]
  const child = Bun.spawn(command, {
    cwd: directory,
    env: { ...process.env, ...env },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const stderr = new Response(child.stderr).text()
  return new Server(directory, await readAddress(child, stderr), keys, child, stderr)
}

/** A gateway in the process of the tests. */
export class LocalServer extends Listener {
  readonly data: string
  /** Whether a test has changed what its books are about. */
  isTampered = false
  readonly gateway: Gateway
  readonly #running: RunningServer

  constructor(data: string, keys: FirstKeys, gateway: Gateway, running: RunningServer) {
    super(running.url, keys)
    this.data = data
    this.gateway = gateway
    this.#running = running
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#running.stop(0)
    await this.gateway.recorder.flush()
    await this.gateway.close()
    try {
      if (this.isTampered) return
      requireRest(this.gateway)
      requireBooks(this.data, [this.management_key, this.inference_key])
    } finally {
      rmSync(this.data, { recursive: true, force: true })
    }
  }
}

/**
 * Starts a server on a free port of this process: for tests of answers that need many servers, and
 * nothing of a process. Disposing of it (`await using`) closes it, and requires that its books hold.
 */
export async function startLocalServer(
  config: Record<string, unknown> = {},
  parts: Partial<Omit<GatewayParts, 'config' | 'data'>> = {},
): Promise<LocalServer> {
  const data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  const keys = await createFirstKeys(data)
  const gateway = await openGateway({
    ...SHARED_WORKERS,
    ...parts,
    data,
    config: parseConfig(JSON.stringify(config), {}),
  })
  return new LocalServer(data, keys, gateway, listen(gateway, '127.0.0.1', 0))
}

const NO_KEYS: FirstKeys = { management_key: '', inference_key: '' }

/**
 * Creates the first keys of a new data directory, as `gateway init` does; a server shows them on a
 * terminal only. They are empty where the directory has its keys already.
 */
async function createFirstKeys(data: string, secret = ''): Promise<FirstKeys> {
  if (existsSync(join(data, 'gateway.db'))) return NO_KEYS
  if (readdirSync(data).length > 0) return openFirstKeys(data, secret)
  const made = prepared.get(secret) ?? prepareData(secret)
  prepared.set(secret, made)
  const { path, keys } = await made
  cpSync(path, data, { recursive: true, filter: file => !file.endsWith('.sock') })
  return keys
}

/** Data directories with their first keys, by their secret: made once, and copied for each server. */
const prepared = new Map<string, Promise<{ path: string; keys: FirstKeys }>>()

async function prepareData(secret: string): Promise<{ path: string; keys: FirstKeys }> {
  const path = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  process.once('exit', () => rmSync(path, { recursive: true, force: true }))
  return { path, keys: await openFirstKeys(path, secret) }
}

async function openFirstKeys(data: string, secret: string): Promise<FirstKeys> {
  const gateway = await openGateway({ data, ...(secret ? { secret } : {}) })
  try {
    return (await createKeys(gateway)) ?? NO_KEYS
  } finally {
    await gateway.close()
  }
}

/** Reads where a server listens from what it prints. Throws what it says when it does not start. */
export async function readAddress(
  child: Subprocess<'ignore' | 'pipe', 'pipe', 'pipe'>,
  stderr: Promise<string>,
): Promise<string> {
  let text = ''
  for await (const bytes of child.stdout) {
    text += new TextDecoder().decode(bytes)
    const lines = text.split('\n')
    text = lines.pop() ?? ''
    for (const line of lines) {
      const event = JSON.parse(line)
      if (event.event === 'listening') return event.url
    }
  }
  throw new Error(`The server did not start: ${await stderr}`)
}

/**
 * Builds a config with one provider `local` at this base URL and one priced model, `acme/small`.
 */
export const buildLocalConfig = (base_url: string, more: Record<string, unknown> = {}) => ({
  providers: { local: { protocol: 'openai-chat', base_url, api_key: 'mock' } },
  models: [
    {
      id: 'acme/small',
      name: 'Acme Small',
      context_length: 128_000,
      endpoints: [
        {
          provider: 'local',
          model: 'gpt-4o-mini',
          usd_per_million_tokens: {
            prompt: 0.15,
            completion: 0.6,
            cache_read: 0.075,
            cache_write: 0.1875,
          },
        },
      ],
    },
  ],
  ...more,
})
