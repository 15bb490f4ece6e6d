import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { Tokenizer } from 'ai-tokenizer'
import * as claude from 'ai-tokenizer/encoding/claude'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { estimateTokenCount } from 'tokenx'
import {
  buildRoutesConfig,
  fetchGeneration,
  type Generation,
  readGenerationId,
  readUsage,
  sendChat,
  waitUntil,
} from '../support/chat.ts'
import { type Server, startServer } from '../support/server.ts'
import {
  chunkedEnd,
  completion,
  delta,
  done,
  finish,
  type Script,
  sseHead,
  startUpstream,
  type Upstream,
  usage,
  usageChunk,
} from '../support/upstream.ts'

const WORDS = [
  'Antidisestablishmentarianism ',
  'und Donau',
  'dampfschiffahrts',
  'gesellschaft ',
  '今天天气很好 ',
  'ภาษาไทย ',
  '👩‍👩‍👧‍👦',
]
const TEXT = WORDS.join('')

const claudes = new Tokenizer(claude)
const openai = countTokens(TEXT)
const anthropic = Math.round(1.1 * claudes.encode(TEXT, 'all').length)
const other = estimateTokenCount(TEXT)

/** The estimate of "Hi": one token, and those of its frame. */
const PROMPT = 7

const MODELS: [model: string, tokens: number][] = [
  ['openai/gpt-test', openai],
  ['anthropic/claude-test', anthropic],
  ['acme/small', other],
]

let server: Server
let upstream: Upstream

beforeAll(async () => {
  upstream = await startUpstream()
  server = await startServer({ config: configFor(upstream) })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

afterEach(() => upstream.emptied())

const configFor = ({ url }: Upstream) =>
  buildRoutesConfig(Object.fromEntries(MODELS.map(([model]) => [model, { local: url }])))

const words = (): Script => [sseHead(), WORDS.map(word => delta(word))]

const record = (tokens: number, more: Partial<Generation> = {}) => ({
  usage_source: 'estimated' as const,
  native_tokens_completion: tokens,
  native_tokens_prompt: PROMPT,
  ...more,
})

/** Streams that have sent everything, and whose clients leave. */
async function abandon(model: string, count: number): Promise<string[]> {
  const calls = Array.from({ length: count }, () => sendChat(server, { model, stream: true }))
  await Promise.all(calls.map(call => call.sees('👦')))
  const ids = calls.map(call => /"id":"(gen-[^"]+)"/.exec(call.text)?.[1] ?? '')
  for (const call of calls) call.hangUp('rst')
  return ids
}

test('the three ways of counting differ for the text', () => {
  expect(new Set([openai, anthropic, other]).size).toBe(3)
})

describe.each(MODELS)('output of %s is estimated with its family’s tokenizer', (model, tokens) => {
  // The first count loads the vocabulary. On a busy machine the rule of thumb answers before it.
  beforeAll(() =>
    waitUntil(async () => {
      upstream.plan(completion(TEXT, { usage: undefined }))
      const outcome = await sendChat(server, { model }).outcome()
      return readUsage(outcome)?.completion_tokens === tokens
    }),
  )

  test('when the client leaves', async () => {
    upstream.answer(() => [words(), { wait: 'never' }])
    for (const id of await abandon(model, 10)) {
      await waitUntil(async () => (await server.fetch(`/generation?id=${id}`)).status === 200)
      expect(await fetchGeneration(server, id)).toMatchObject(record(tokens, { cancelled: true }))
    }
  })

  test.each<[name: string, ends: () => Script]>([
    ['does not count', () => [finish(), done(), chunkedEnd()]],
    ['counts 0 and 0', () => [finish(), usageChunk(usage(0, 0)), done(), chunkedEnd()]],
  ])('when the provider of a stream %s', async (_, ends) => {
    upstream.plan([words(), ends()])
    const outcome = await sendChat(server, { model, stream: true }).outcome()
    expect(readUsage(outcome)).toMatchObject({ prompt_tokens: PROMPT, completion_tokens: tokens })
    expect(await fetchGeneration(server, readGenerationId(outcome))).toMatchObject(
      record(tokens, { cancelled: false, finish_reason: 'stop' }),
    )
  })

  test.each<[name: string, counts: object | undefined]>([
    ['does not count', undefined],
    ['counts 0 and 0', usage(0, 0)],
  ])('when the provider of a whole answer %s', async (_, counts) => {
    upstream.plan(completion(TEXT, { usage: counts }))
    const outcome = await sendChat(server, { model }).outcome()
    expect(readUsage(outcome)).toMatchObject({ prompt_tokens: PROMPT, completion_tokens: tokens })
    expect(await fetchGeneration(server, readGenerationId(outcome))).toMatchObject(record(tokens))
  })

  test('but not when it was counted', async () => {
    upstream.plan(completion(TEXT))
    const outcome = await sendChat(server, { model }).outcome()
    expect(await fetchGeneration(server, readGenerationId(outcome))).toMatchObject({
      usage_source: 'exact',
      native_tokens_completion: 5,
    })
  })
})

test('a server that stops during an estimate records every call', async () => {
  await server[Symbol.asyncDispose]()
  server = await startServer({ config: configFor(upstream) })
  upstream.answer(() => [words(), { wait: 'never' }])
  const { inference_key: key, data } = server
  const ids = await abandon('openai/gpt-test', 20)
  server.process.kill('SIGTERM')
  expect(await server.process.exited).toBe(0)
  server = await startServer({ data, config: configFor(upstream) })
  // By the tokenizer, or by the rule of thumb where it was not ready in time.
  for (const id of ids)
    expect(await fetchGeneration(server, id, key)).toMatchObject({
      cancelled: true,
      usage_source: 'estimated',
    })
  Object.assign(server, { inference_key: key })
})
