import { beforeAll, expect, test } from 'bun:test'
import type { TSchema } from '@sinclair/typebox'
import { isObject, type Json } from '../../src/base/json.ts'
import { createApp } from '../../src/server/app.ts'
import { type DescribedRoute, listDescribedRoutes } from '../../src/server/openapi.ts'
import { collectGrowth } from '../support/collect.ts'
import { readThreadCpu } from '../support/cpu.ts'
import { measureLoopUse, watchLoop } from '../support/event-loop.ts'
import { testGateway } from '../support/gateway.ts'
import { buildSmallest, type LargestCase, listLargestCases } from '../support/largest.ts'
import {
  EMBEDDING_MODELS,
  type LoopWorld,
  openLoopWorld,
  TEXT_MODELS,
} from '../support/loop-world.ts'
import { createSeededRandom, LONG, SEED } from '../support/random.ts'
import { INPUT_AUDIO } from '../support/recording.ts'

/*
 * For every field of every schema (queries too) the largest legal value in count, length and depth,
 * on every protocol: no other connection waits more than 250 ms, and peak memory stays under 200 MB
 * above idle. The long run makes all cases; the short one some, other ones with each seed.
 */

const CASES = LONG ? Number(process.env.CASES ?? 10_000) : 12
/** Cases that are made instead, to look at one again: `ONLY='createMessages acme/gemini body system'`. */
const ONLY = process.env.ONLY

/**
 * What nobody waits longer for. Machines of tests are slower and busier than servers: the short run
 * only finds what is far from linear, such as every planted bug.
 */
const LONGEST = LONG ? 250 : 1_000
const MIB = 1024 * 1024
/** In MiB. */
const MEMORY = LONG ? 200 : 550
const BOUNDS = { longest: LONGEST, memory: MEMORY }
/** What a small call is far from, on any machine: a planted bug need not be larger. */
const SMALL = { longest: 250, memory: 200 }
/**
 * Of a text with a character beyond Latin-1 the platform keeps each unit in two bytes: of 30 MB
 * that is as it arrived, as a value, and once more where it is joined to another. A document is
 * also a data URL, and the arguments of a tool are also parsed. THREATS.md says so.
 */
const KNOWN: [cases: RegExp, memory: number][] = [
  [/(document\]|arguments).*full of one ideograph/, 400],
  [/full of one ideograph/, 280],
]

/** Where a case is sent: its route, and the model where one is named. */
interface Target {
  route: DescribedRoute
  model: string | undefined
  part: 'body' | 'query'
  largest: LargestCase
}

const messages = [{ role: 'user', content: 'Hi' }]
/** What a call consists of beside the field. */
const CALLS: Record<string, { models: string[]; base: Json }> = {
  sendChatCompletionRequest: { models: [...TEXT_MODELS, 'sandbox/echo'], base: { messages } },
  sendCompletionRequest: { models: [...TEXT_MODELS, 'sandbox/echo'], base: { prompt: 'Hi' } },
  createMessages: { models: [...TEXT_MODELS, 'sandbox/echo'], base: { messages } },
  createResponses: { models: [...TEXT_MODELS, 'sandbox/echo'], base: { input: 'Hi' } },
  createRerank: {
    models: [...EMBEDDING_MODELS, 'sandbox/embed'],
    base: { query: 'Hi', documents: ['Hi'] },
  },
  createAudioTranscriptions: {
    models: ['sandbox/transcribe'],
    base: { input_audio: INPUT_AUDIO },
  },
  createAudioSpeech: { models: ['sandbox/speech'], base: { input: 'Hi' } },
  createVideos: { models: ['sandbox/video'], base: { prompt: 'Hi' } },
  createImages: { models: ['sandbox/image'], base: { prompt: 'Hi' } },
  createEmbeddings: { models: [...EMBEDDING_MODELS, 'sandbox/embed'], base: { input: 'Hi' } },
}

const routes = listDescribedRoutes(createApp(await testGateway()))
const targets = routes.flatMap(listTargets)

function listTargets(route: DescribedRoute): Target[] {
  const { id, body, query } = route.operation
  const models = CALLS[id]?.models ?? [undefined]
  const list = (part: Target['part'], schema: TSchema | undefined) =>
    schema
      ? listLargestCases(schema).flatMap(largest =>
          models.map(model => ({ route, model, part, largest })),
        )
      : []
  return [...list('body', body), ...list('query', query)]
}

/**
 * The kinds of cases, and the share of each in a run. Many of something is what breaks, and most
 * cases are fields that nothing reads.
 */
const SHARES: [share: number, belongs: (name: string) => boolean][] = [
  [1 / 2, name => / (with \d+ of|full of) /.test(name)],
  [1 / 3, name => !/\.[x*] /.test(name)],
  [1 / 6, () => true],
]

/** Picks as many cases as wanted, by kinds; within a kind each is as likely as any other. */
function pickCases(random: () => number): Target[] {
  if (ONLY) return targets.filter(target => nameCase(target).includes(ONLY))
  const kinds = SHARES.map((): { target: Target; luck: number }[] => [])
  for (const target of targets) {
    const kind = SHARES.findIndex(([, belongs]) => belongs(target.largest.name))
    kinds[kind]?.push({ target, luck: random() })
  }
  return kinds.flatMap((kind, i) => {
    const count = Math.round(CASES * (SHARES[i]?.[0] ?? 0))
    return kind
      .sort((a, b) => a.luck - b.luck)
      .slice(0, count)
      .map(({ target }) => target)
  })
}

let world: LoopWorld

beforeAll(async () => {
  world = await openLoopWorld()
  // What is read and compiled once is not measured.
  for (const [id, { models, base }] of Object.entries(CALLS)) {
    const path = routes.find(({ operation }) => operation.id === id)?.path ?? ''
    for (const model of models) await world.send(toPath(path), { model, ...base })
  }
  await world.send('/models')
})

const nameCase = ({ route, model, part, largest }: Target) =>
  [route.operation.id, model, part, largest.name].join(' ')
const toPath = (path: string) => path.replace(/^\/api\/v1/, '').replace(/:\w+/g, 'x')

/** Writes the request of a case: as text, so that only the gateway's work is measured. */
function writeRequest({ route, model, part, largest }: Target): { path: string; body?: string } {
  const value = largest.build()
  const path = toPath(route.path)
  if (part === 'query') {
    const entries = Object.entries(value as Json).map(([name, text]) => [name, String(text)])
    return { path: `${path}?${new URLSearchParams(entries)}` }
  }
  const { base } = CALLS[route.operation.id] ?? {
    base: route.operation.body ? buildSmallest(route.operation.body) : {},
  }
  const named = model === undefined || largest.name.startsWith('model ') ? {} : { model }
  const body = isObject(value)
    ? { ...(base as Json), ...named, ...pickField(value, largest) }
    : value
  return { path, body: JSON.stringify(body) }
}

// The smallest body has fields of its own, which must not replace the model and the messages.
function pickField(value: Json, { name }: LargestCase): Json {
  const [field = ''] = name.split(/[.<[ ]/)
  return field in value ? { [field]: value[field] } : value
}

const findKey = ({ route }: Target) =>
  CALLS[route.operation.id] || route.path.includes('/presets')
    ? world.keys.inference
    : world.keys.management

const isUnderApi = ({ route }: Target) => route.path.startsWith('/api/v1/')

/** Makes the requests of these cases one after the other, and says what others suffer from. */
async function listHarm(
  cases: Target[],
  send: LoopWorld['send'],
  bounds = BOUNDS,
  measure: typeof measureRoughly = LONG ? measureLoopUse : measureRoughly,
): Promise<string[]> {
  const found: string[] = []
  for (const target of cases) {
    const { path, body } = writeRequest(target)
    const options = { method: target.route.method.toUpperCase(), key: findKey(target) }
    const call = () => send(path, body, options)
    const { result, longest, memory } = await measure(call)
    const name = nameCase(target)
    const megabytes = Math.round(memory / MIB)
    if (ONLY) process.stderr.write(`${name}: ${Math.round(longest)} ms, ${megabytes} MB\n`)
    if (result.status >= 500 && result.status !== 503)
      found.push(`${name}: ${result.status} ${result.text.slice(0, 200)}`)
    if (longest > bounds.longest) found.push(`${name}: others wait for ${Math.round(longest)} ms`)
    if (megabytes > findBound(name, bounds.memory)) found.push(`${name}: ${megabytes} MB`)
  }
  return found
}

/**
 * Measures a call of which others may have left garbage, as to collect it before each takes as long
 * as most calls. One that collects it itself is measured once more, for the time alone, unless it is
 * answered otherwise then. Memory that it gave back meanwhile is in the bound of the short run.
 */
async function measureRoughly(call: () => ReturnType<LoopWorld['send']>) {
  collectGrowth()
  const first = await watchLoop(call)
  if (first.longest <= LONGEST) return first
  const again = await measureLoopUse(call)
  return again.result.status === first.result.status ? { ...again, memory: first.memory } : first
}

const findBound = (name: string, memory: number): number =>
  Math.max(memory, KNOWN.find(([cases]) => cases.test(name))?.[1] ?? 0)

const draw = () => pickCases(createSeededRandom(SEED)).filter(isUnderApi)

test(`nobody waits for the largest values of ${CASES} fields of ${targets.length} (seed ${SEED})`, async () => {
  expect(await listHarm(draw(), world.send)).toEqual([])
}, 7_200_000)

/** Works on each message of a call in one turn, until the processor has been used for so long. */
function holdLoop(milliseconds: number): void {
  const start = readThreadCpu()
  while (readThreadCpu() - start < milliseconds);
}

const isCall = ({ route, model }: Target) =>
  CALLS[route.operation.id] !== undefined && model !== undefined && !model.startsWith('sandbox/')

// The process may give other memory back meanwhile: what is planted is more than the bound.
const PLANTS: [bug: string, harm: RegExp, plant: () => unknown][] = [
  ['work in one turn', /others wait/, () => holdLoop(1.1 * SMALL.longest)],
  ['one more copy of a body', / MB$/, () => Buffer.alloc(1.5 * SMALL.memory * MIB, 1)],
]

test.each(PLANTS)(
  'a planted bug is found: %s',
  async (_, harm, plant) => {
    const planted = await openLoopWorld()
    const { send } = planted.gateway.egress
    planted.gateway.egress.send = (outgoing, cancellation) => {
      const kept = plant()
      return send(outgoing, cancellation).finally(() => kept)
    }
    const call: LoopWorld['send'] = (path, body, options) =>
      planted.send(path, body, { ...options, key: planted.keys.inference })
    const isDeep = ({ largest }: Target) => largest.name === 'messages[user].x as deep as possible'
    const cases = targets.filter(target => isCall(target) && isDeep(target)).slice(0, 1)
    const found = await listHarm(cases, call, SMALL, measureLoopUse)
    expect(found.filter(one => harm.test(one))).not.toEqual([])
  },
  300_000,
)

test('the cases reach every field in count, length and depth', () => {
  const names = new Set(
    targets
      .filter(({ route }) => route.operation.id === 'sendChatCompletionRequest')
      .map(({ largest }) => largest.name),
  )
  for (const name of [
    'messages with 75000 of system',
    'messages[user].content as long as possible',
    'messages[assistant].tool_calls with 40909 of function',
    'provider.order full of long texts',
    'response_format<1>.json_schema.schema with 20000 of $defs, each with the next',
    'tools with 2048 of function',
    'metadata with 64 members',
    'trace with 10000 members',
    'messages[user].x as deep as possible',
  ])
    expect(names).toContain(name)
})
