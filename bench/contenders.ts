import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type Child, startChild } from './children.ts'
import { MODEL, type Target } from './wire.ts'

/** A program under test: its address, the key to call it with, and how to stop it. */
export type Contender = Child & { name: string; target: Target }

/**
 * What is compared with the floor: the gateway, or the floor again, which shows how far two equal
 * programs differ.
 */
export type Rival = 'ours' | 'floor2'

/** The contender has a core of its own. The mock provider and the load share the other. */
export const CORES = { tools: 0, contender: 1 }

/** The price of a million tokens at the mock provider, in USD. */
export const PRICE = { prompt: 0.15, completion: 0.6 }

const ROOT = resolve(import.meta.dir, '..')
const FLOOR_KEY = 'sk-floor-bench'

/** Starts a mock provider: `upstream.ts`, or another program of this folder. */
export function startUpstream(
  home: string,
  env: Record<string, string>,
  program = 'upstream.ts',
): Promise<Child> {
  return startChild({
    name: 'upstream',
    command: [process.execPath, join(import.meta.dir, program)],
    core: CORES.tools,
    home,
    env,
  })
}

/** Starts the ten-line proxy under the given name. */
export async function startFloor(name: string, upstream: Child, home: string): Promise<Contender> {
  const env = { UPSTREAM_URL: upstream.url, FLOOR_KEY }
  const child = await startChild({
    name,
    command: [process.execPath, join(import.meta.dir, 'floor.ts')],
    core: CORES.contender,
    home,
    env,
  })
  return { ...child, name, target: { url: child.url, key: FLOOR_KEY } }
}

/** Renders the config of one provider with one model, which is the mock. */
export function renderSingleModelConfig(upstream: Pick<Child, 'url'>): string {
  return `providers:
  local: { protocol: openai-chat, base_url: "${upstream.url}/v1", api_key: mock }
models:
  - id: ${MODEL}
    name: Bench Model
    context_length: 128000
    endpoints:
      - provider: local
        model: bench-model
        usd_per_million_tokens: { prompt: ${PRICE.prompt}, completion: ${PRICE.completion} }
`
}

/**
 * Writes the config, runs `gateway init` in a data directory, and returns the inference key.
 * `program` defaults to the built one.
 */
export async function initGateway(
  config: string,
  home: string,
  program = [getGatewayBinary()],
): Promise<string> {
  const data = join(home, 'data')
  mkdirSync(data, { recursive: true })
  writeFileSync(join(data, 'gateway.yaml'), config)
  const made = JSON.parse(await runCommand([...program, 'init', '--json', '--data', data]))
  if (typeof made.inference_key !== 'string')
    throw new Error('gateway init printed no inference_key')
  return made.inference_key
}

/** Starts the gateway on the directory that `initGateway` prepared. */
export async function startGateway(
  key: string,
  home: string,
  program = [getGatewayBinary()],
): Promise<Contender> {
  const data = join(home, 'data')
  const paths = ['--data', data, '--config', join(data, 'gateway.yaml')]
  const command = [...program, 'serve', '--port', '0', ...paths, '--log', 'json']
  const child = await startChild({ name: 'ours', command, core: CORES.contender, home })
  return { ...child, name: 'ours', target: { url: child.url, key } }
}

/** Returns the path of the binary under test: GATEWAY_BIN, else dist/gateway. */
export function getGatewayBinary(): string {
  return resolve(process.env.GATEWAY_BIN ?? join(ROOT, 'dist/gateway'))
}

/** Builds dist/gateway if it does not exist. Throws if it does not exist after that. */
export async function ensureGateway(): Promise<void> {
  if (existsSync(getGatewayBinary())) return
  if (!process.env.GATEWAY_BIN) await runCommand([process.execPath, 'run', 'build'])
  if (!existsSync(getGatewayBinary())) throw new Error(`There is no ${getGatewayBinary()}`)
}

/** Reads from the gateway what its key has spent, in USD. */
export async function readSpending({ url, key }: Target): Promise<number> {
  const answer = await fetch(`${url}/api/v1/key`, {
    headers: { authorization: `Bearer ${key}` },
    signal: AbortSignal.timeout(5_000),
  })
  if (!answer.ok) throw new Error(`GET /api/v1/key answered ${answer.status}`)
  const { data } = (await answer.json()) as { data?: { usage?: number } }
  return data?.usage ?? Number.NaN
}

async function runCommand(command: string[]): Promise<string> {
  const child = Bun.spawn(command, {
    cwd: ROOT,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    timeout: 120_000,
  })
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  if (code !== 0)
    throw new Error(`${command.join(' ')} ended with ${code}: ${stderr.slice(-1_000)}`)
  return stdout
}
