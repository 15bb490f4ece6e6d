import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { findProgram } from '../own-program.ts'
import { type Child, createCleanEnvironment, listLeashArguments, startChild } from './children.ts'
import { MODEL, type Target } from './wire.ts'

/** A program under test: its address, the key to call it with, and how to stop it. */
export type Contender = Child & { name: string; target: Target }

/** The contender has a core of its own. The mock provider and the load share the other. */
export const CORES = { tools: 0, contender: 1 }

/** The price of a million tokens at the mock provider, in USD. */
export const PRICE = { prompt: 0.15, completion: 0.6 }

const FLOOR_KEY = 'sk-floor-bench'

/** Starts a part of the benchmark in a process of its own. */
const startPart = (
  name: string,
  core: number,
  home: string,
  env: Record<string, string>,
): Promise<Child> =>
  startChild({ name, command: [...findProgram(), 'bench-part', name], core, home, env })

/** Starts the mock provider. */
export const startUpstream = (home: string, env: Record<string, string>): Promise<Child> =>
  startPart('upstream', CORES.tools, home, env)

/** Starts the ten-line proxy. */
export async function startFloor(upstream: Child, home: string): Promise<Contender> {
  const env = { UPSTREAM_URL: upstream.url, FLOOR_KEY }
  const child = await startPart('floor', CORES.contender, home, env)
  return { ...child, name: 'floor', target: { url: child.url, key: FLOOR_KEY } }
}

/** Starts the relay of bytes between sockets. */
export async function startSockets(upstream: Child, home: string): Promise<Contender> {
  const child = await startPart('sockets', CORES.contender, home, { UPSTREAM_URL: upstream.url })
  return { ...child, name: 'sockets', target: { url: child.url, key: 'none' } }
}

/** Renders the config of one provider with one model, which is the mock. */
export function renderSingleModelConfig(upstream: Pick<Child, 'url'>): string {
  const { host } = new URL(upstream.url)
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
security: { allow_private_urls: ["${host}"] }
`
}

/** A gateway that is not running: its program, its data directory and its first keys. */
export interface Home {
  program: string[]
  data: string
  key: string
}

/**
 * Writes the config, and runs `gateway init` in a data directory. `program` defaults to this one.
 */
export async function initGateway(
  config: string,
  home: string,
  program = findProgram(),
): Promise<Home> {
  const data = join(home, 'data')
  mkdirSync(data, { recursive: true, mode: 0o700 })
  writeFileSync(join(data, 'gateway.yaml'), config)
  const made = JSON.parse(await runCommand([...program, 'init', '--json', '--data', data]))
  if (typeof made.inference_key !== 'string')
    throw new Error('gateway init printed no inference_key')
  return { program, data, key: made.inference_key }
}

/** The key of calls, among the first keys. */
const KEY_NAME = 'inference'

/** Returns the commands that switch everything on: limits, filters, a destination. */
const listEverything = (upstream: Pick<Child, 'url'>): string[][] => [
  ['keys', 'update', KEY_NAME, '--limit', '1000000', '--limit-reset', 'daily'],
  ['budgets', 'set', 'monthly', '--limit', '1000000'],
  [
    'guardrails',
    'update',
    'default',
    '--filters',
    FILTERS,
    '--limit',
    '1000000',
    '--reset',
    'daily',
  ],
  ['workspaces', 'update', 'default', '--broadcast', 'yes'],
  [
    'destinations',
    'create',
    '--type',
    'webhook',
    '--name',
    'hook',
    '--set',
    `url=${upstream.url}/hook`,
  ],
]
const FILTERS = 'email=redact,phone=redact,credit-card=redact'

/** Switches on what a careful operator has: limits of the key and workspace, filters, a webhook. */
export async function enableEverything(home: Home, upstream: Pick<Child, 'url'>): Promise<void> {
  for (const words of listEverything(upstream)) await runVerb(home, words)
}

/** Runs a command of the gateway on its data directory, and returns what it printed. */
export const runVerb = ({ program, data }: Home, words: string[]): Promise<string> =>
  runCommand([...program, ...words, '--data', data])

/** Starts the gateway on the directory that `initGateway` prepared. */
export async function startGateway(home: Home, name = 'ours'): Promise<Contender> {
  const { program, data, key } = home
  const paths = ['--data', data, '--config', join(data, 'gateway.yaml')]
  const command = [...program, 'serve', '--port', '0', ...paths, '--log', 'json']
  const child = await startChild({ name, command, core: CORES.contender, home: dirname(data) })
  return { ...child, name, target: { url: child.url, key } }
}

/** Starts nginx as a plain proxy, one process. Null where it is not installed. */
export async function startNginx(upstream: Child, home: string): Promise<Contender | null> {
  const nginx = findProgramFile('nginx')
  if (!nginx) return null
  const url = `http://127.0.0.1:${findFreePort()}`
  mkdirSync(home, { recursive: true })
  const config = join(home, 'nginx.conf')
  writeFileSync(config, renderNginxConfig(home, url, upstream.url))
  const command = [nginx, '-p', home, '-c', config]
  const child = await startChild({ name: 'nginx', command, core: CORES.contender, home, url })
  return { ...child, name: 'nginx', target: { url, key: 'none' } }
}

// Buffers hold the largest body: else nginx writes it to a file first.
const renderNginxConfig = (home: string, url: string, upstream: string) => `daemon off;
master_process off;
worker_processes 1;
pid ${home}/nginx.pid;
error_log stderr crit;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_buffer_size 2m;
  client_max_body_size 8m;
  client_body_temp_path ${home}/body;
  proxy_temp_path ${home}/proxy;
  fastcgi_temp_path ${home}/fastcgi;
  uwsgi_temp_path ${home}/uwsgi;
  scgi_temp_path ${home}/scgi;
  keepalive_requests 1000000000;
  upstream provider {
    server ${new URL(upstream).host};
    keepalive 512;
    keepalive_requests 1000000000;
  }
  server {
    listen ${new URL(url).host} backlog=4096;
    location / {
      proxy_pass http://provider;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }
  }
}
`

/** Where npm puts the script of Portkey's gateway, below a folder of modules. */
const PORTKEY = '@portkey-ai/gateway/build/start-server.js'

/** Starts Portkey's gateway on Node. Null where it is not installed. */
export async function startPortkey(upstream: Child, home: string): Promise<Contender | null> {
  const [node, script] = [findProgramFile('node'), findPortkey()]
  if (!node || !script) return null
  const port = findFreePort()
  const url = `http://127.0.0.1:${port}`
  const command = [node, script, `--port=${port}`, '--headless']
  const env = { NODE_ENV: 'production' }
  const child = await startChild({
    ...{ name: 'portkey', command, core: CORES.contender, home, env, url },
  })
  const headers = {
    'x-portkey-provider': 'openai',
    'x-portkey-custom-host': `${upstream.url}/v1`,
  }
  const target = { url, key: 'none', path: '/v1/chat/completions', headers }
  return { ...child, name: 'portkey', target }
}

function findPortkey(): string | undefined {
  const node = findProgramFile('node')
  return [
    join(process.cwd(), 'node_modules', PORTKEY),
    ...(node ? [join(dirname(dirname(node)), 'lib/node_modules', PORTKEY)] : []),
    join('/usr/local/lib/node_modules', PORTKEY),
  ].find(existsSync)
}

// Servers are often outside of a user's path.
const findProgramFile = (name: string) =>
  Bun.which(name, { PATH: `${process.env.PATH ?? ''}:/usr/sbin:/usr/local/sbin` })

function findFreePort(): number {
  const listener = Bun.listen({
    ...{ hostname: '127.0.0.1', port: 0, socket: { data: () => undefined } },
  })
  const { port } = listener
  listener.stop(true)
  return port
}

async function runCommand(command: string[]): Promise<string> {
  const child = Bun.spawn([...listLeashArguments(), ...command], {
    ...{ stdin: 'ignore', stdout: 'pipe', stderr: 'pipe', timeout: 120_000 },
    env: createCleanEnvironment(),
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
