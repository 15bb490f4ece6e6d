import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { fetchKeyState, readMetric, waitUntil } from '../../support/chat.ts'
import { createSeededRandom, LONG, SEED } from '../../support/random.ts'
import { buildLocalConfig, type Server, startServer } from '../../support/server.ts'
import { frameChunk, StubbornClient } from '../../support/stubborn-client.ts'
import {
  completion,
  delta,
  sseHead,
  startUpstream,
  stream,
  type Upstream,
} from '../../support/upstream.ts'

/*
 * The generator of cases for the section "Connections": every credential, route, framing
 * and way of sending and reading, in every combination. Whatever it is, the server ends the
 * connection, has read no more than it should, and keeps nothing of it.
 */

const ROUNDS = LONG ? 20 : 1
const AT_ONCE = LONG ? 500 : 80

/** In seconds. Bun ends a head that does not come after twelve, and looks every four. */
const LAST = 12 + 4 + 6
const HUGE = 400_000_000
const BUFFERED = 32 * 1024 * 1024

let server: Server
let upstream: Upstream

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.answer(({ json }) => {
    const { stream: isStream, user } = json as { stream?: boolean; user?: string }
    if (user === 'long')
      return [sseHead(), Array.from({ length: 400 }, () => delta('x'.repeat(60_000)))]
    return isStream ? stream() : completion('Hello')
  })
  server = await startServer({
    config: buildLocalConfig(upstream.url, {
      server: { idle_seconds: 1 },
      timeouts: { body_seconds: 1, reader_seconds: 1, keep_alive_seconds: 0.25 },
    }),
  })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

const CREDENTIALS = ['none', 'wrong', 'inference', 'management'] as const
const ROUTES = [
  'POST /api/v1/chat/completions',
  'POST /api/v1/messages',
  'POST /api/v1/keys',
  'PATCH /api/v1/keys/none',
  'PUT /api/v1/nowhere',
  'GET /health',
  'DELETE /api/v1/keys/none',
] as const
const FRAMINGS = ['exact', 'small', 'large', 'huge', 'chunked'] as const
const SENDERS = ['whole', 'nothing', 'drip', 'half', 'flood', 'half-head', 'twice'] as const
const READERS = ['reads', 'stops'] as const

/** What one client does. */
interface Behaviour {
  credential: (typeof CREDENTIALS)[number]
  route: (typeof ROUTES)[number]
  framing: (typeof FRAMINGS)[number]
  sender: (typeof SENDERS)[number]
  reader: (typeof READERS)[number]
  body: object
}

const BODIES: object[] = [{}, { stream: true }, { stream: true, user: 'long' }, { messages: 1 }]

function pickBehaviour(random: () => number): Behaviour {
  const pick = <Item>(items: readonly Item[]) => items[Math.floor(random() * items.length)] as Item
  return {
    credential: pick(CREDENTIALS),
    route: pick(ROUTES),
    framing: pick(FRAMINGS),
    sender: pick(SENDERS),
    reader: pick(READERS),
    body: pick(BODIES),
  }
}

/** How many bytes a body has by its head; null for a chunked one. */
const LENGTHS: Record<Behaviour['framing'], (body: string) => number | null> = {
  exact: body => body.length,
  small: () => 50_000,
  large: () => 20_000_000,
  huge: () => HUGE,
  chunked: () => null,
}

async function behave(client: StubbornClient, behaviour: Behaviour): Promise<void> {
  const { route, framing, sender, reader } = behaviour
  const [method = '', path = ''] = route.split(' ')
  const body = JSON.stringify({
    model: 'acme/small',
    max_tokens: 10,
    messages: [{ role: 'user', content: 'Hi' }],
    ...behaviour.body,
  })
  if (reader === 'stops') client.stopReading()
  if (sender === 'half-head') return void client.send(`${method} ${path} HTTP/1.1\r\nHo`)
  const length = LENGTHS[framing](body)
  const frame = length === null ? frameChunk : (piece: Uint8Array) => piece
  const headers = {
    ...authorize(behaviour),
    ...(length === null
      ? { 'transfer-encoding': 'chunked' }
      : { 'content-length': String(length) }),
  }
  client.sendHead(method, path, headers)
  const bytes = Buffer.from(body)
  if (sender === 'whole' || sender === 'twice') client.send(frame(bytes))
  if (sender !== 'nothing' && length === null && sender !== 'drip') client.send('0\r\n\r\n')
  if (sender === 'twice') client.sendHead('GET', '/health').send('GET /hea')
  if (sender === 'half') client.send(frame(bytes.subarray(0, 20)))
  if (sender === 'drip') client.drip(Buffer.from(frame(Buffer.from(' '))).toString(), 100)
  if (sender === 'flood') await client.flood(length ?? HUGE, frame)
}

function authorize({ credential }: Behaviour): Record<string, string> {
  if (credential === 'none') return {}
  const keys = {
    wrong: 'sk-wrong',
    inference: server.inference_key,
    management: server.management_key,
  }
  return { authorization: `Bearer ${keys[credential]}` }
}

/** Returns what is wrong with the end of a behaviour; null if nothing is. */
async function findFault(behaviour: Behaviour): Promise<string | null> {
  using client = new StubbornClient(server.url)
  void behave(client, behaviour)
  const isOver = async () => client.port !== undefined && !listConnections().has(client.port)
  try {
    await waitUntil(async () => client.port !== undefined)
    await Bun.sleep(1_500)
    await waitUntil(isOver, LAST)
  } catch {
    return 'is still open'
  }
  return client.sent > BUFFERED ? `took ${client.sent} bytes` : null
}

let connections = { at: Number.NEGATIVE_INFINITY, ports: new Set<number>() }

// A client that does not read does not notice that the server has closed, so the system is asked.
function listConnections(): Set<number> {
  if (performance.now() - connections.at < 100) return connections.ports
  const port = Number(new URL(server.url).port)
  const rows = readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1, -1)
  const established = rows
    .map(row => row.trim().split(/\s+/))
    .filter(([, local, , state]) => state === '01' && readPort(local) === port)
  const ports = new Set(established.map(([, , remote]) => readPort(remote)))
  connections = { at: performance.now(), ports }
  return ports
}

const readPort = (address = ''): number => Number.parseInt(address.split(':')[1] ?? '', 16)

test(
  `C-10 every behaviour of a client comes to an end (${ROUNDS} × ${AT_ONCE}, seed ${SEED})`,
  async () => {
    const random = createSeededRandom(SEED)
    for (let round = 0; round < ROUNDS; round++) {
      const behaviours = Array.from({ length: AT_ONCE }, () => pickBehaviour(random))
      const faults = await Promise.all(
        behaviours.map(async behaviour => ({ behaviour, fault: await findFault(behaviour) })),
      )
      expect(faults.filter(({ fault }) => fault !== null)).toEqual([])
      await waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 0)
      await upstream.emptied()
    }
    expect((await fetchKeyState(server)).limit_remaining).toBeNull()
    await waitUntil(async () => readdirSync(`/proc/${server.process.pid}/fd`).length < 40)
  },
  ROUNDS * 60_000,
)
