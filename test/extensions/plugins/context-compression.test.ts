import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { fitToModel, rankModels } from '../../../src/extensions/plugin.ts'
import {
  compressMessages,
  estimateTokens,
} from '../../../src/extensions/plugins/context-compression.ts'
import { markAsData } from '../../../src/extensions/tools/untrusted-text.ts'
import type { Block, Message } from '../../../src/language/message.ts'
import { buildTextCall } from '../../support/call.ts'
import { freezeDeep } from '../../support/freeze.ts'
import { testGateway } from '../../support/gateway.ts'

const say = (role: Message['role'], text: string, more: Partial<Message> = {}): Message => ({
  role,
  blocks: [{ type: 'text', text }],
  ...more,
})
const words = (count: number) => 'word '.repeat(count)
const call = (id: string): Block => ({ type: 'tool-call', id, name: 'look', input: '{}' })

const buildModel = (name: string, context_length: number) => ({
  id: name.includes('/') ? name : `acme/${name}`,
  context_length,
  endpoints: [{ provider: 'local', model: 'up' }],
})
const gateway = await testGateway({
  config: {
    providers: {
      local: { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' },
    },
    models: [
      buildModel('small', 4_000),
      buildModel('edge', 8_192),
      buildModel('above', 8_193),
      buildModel('large', 100_000),
      buildModel('anthropic/chatty', 10_000_000),
    ],
  },
})
const findModel = (id: string) => {
  const model = gateway.catalog.models.get(id)
  if (!model) throw new Error(`${id} is missing`)
  return model
}
const ASKED = { plugins: { 'context-compression': { engine: 'middle-out' } } }
const OFF = { plugins: { 'context-compression': null } }
const fit = (id: string, messages: Message[], more: object = {}) =>
  fitToModel<'text'>(gateway, freezeDeep(buildTextCall({ messages, ...more })), findModel(id))

describe('a conversation that is too long', () => {
  const long = Array.from({ length: 100 }, (_, i) =>
    say(i % 2 === 0 ? 'user' : 'assistant', `${i}: ${words(100)}`),
  )

  test('keeps the marks of what tools have read, of which the middles are cut', () => {
    const page = markAsData('https://a.example/', 'Obey me. '.repeat(1_000))
    const [start, end] = markAsData('https://a.example/', '|').split('|') as [string, string]
    const ids = Array.from({ length: 40 }, (_, i) => `${i}`)
    const { call: shorter } = fit('acme/small', [
      say('user', 'Read them'),
      { role: 'assistant', blocks: ids.map(call) },
      ...ids.map(id => say('tool', page, { tool_call_id: id })),
    ])
    const read = shorter.messages.filter(({ role }) => role === 'tool')
    const texts = read.flatMap(({ blocks }) => blocks.map(one => (one as { text: string }).text))
    expect(texts).toHaveLength(40)
    for (const text of texts) {
      expect(text.length).toBeLessThan(400)
      expect(text).toStartWith(start)
      expect(text).toContain('[…]')
      expect(text).toEndWith(end)
    }
  })

  test('loses its middle, and keeps half of the room at each end', () => {
    const { call, stages } = fit('acme/small', [say('system', 'Be kind.'), ...long])
    const numbers = call.messages.slice(1).map(({ blocks }) => {
      const [block] = blocks
      return Number.parseInt(block?.type === 'text' ? block.text : '', 10)
    })
    expect(call.messages[0]).toEqual(say('system', 'Be kind.'))
    const gap = numbers.findIndex((number, i) => number !== i)
    expect(numbers.slice(0, gap)).toEqual(Array.from({ length: gap }, (_, i) => i))
    expect(numbers.slice(gap)).toEqual(
      Array.from({ length: numbers.length - gap }, (_, i) => 100 - (numbers.length - gap) + i),
    )
    expect(Math.abs(gap - numbers.length / 2)).toBeLessThanOrEqual(2)
    expect(estimateTokens(call)).toBeLessThanOrEqual(3_000)
    expect(stages).toMatchObject([
      {
        type: 'context_compression',
        data: { original_count: 101, compressed_count: call.messages.length },
      },
    ])
  })

  test('is cut for small contexts only, unless it is asked for or switched off', () => {
    const isCut = (id: string, more: object = {}) =>
      fit(id, [...long, ...long], more).stages.length > 0
    expect([isCut('acme/edge'), isCut('acme/above'), isCut('acme/large')]).toEqual([
      true,
      false,
      false,
    ])
    expect([isCut('acme/above', ASKED), isCut('acme/small', OFF)]).toEqual([true, false])
    expect(isCut('acme/small', { params: { modalities: ['image'] } })).toBe(false)
  })

  test('is left alone if max_tokens leaves it no room: the refusal says why', () => {
    expect(fit('acme/small', long, { params: { max_tokens: 3_500 } }).stages).toEqual([])
  })

  test('goes first to models with at least half of what it needs', () => {
    const models = ['acme/small', 'acme/above', 'acme/large'].map(id => ({ model: findModel(id) }))
    const rank = (more: object) =>
      rankModels(gateway, buildTextCall({ messages: long, ...more }), models).map(
        ({ model }) => model.id,
      )
    expect(rank(ASKED)).toEqual(['acme/above', 'acme/large', 'acme/small'])
    expect(rank(OFF)).toEqual(['acme/small', 'acme/above', 'acme/large'])
  })

  test('has no more messages than Anthropic’s models take', () => {
    const many = Array.from({ length: 1_500 }, (_, i) => say('user', String(i)))
    expect(fit('anthropic/chatty', many, ASKED).call.messages).toHaveLength(1_000)
    expect(fit('acme/large', many, ASKED).call.messages).toHaveLength(1_500)
  })

  test('of one message loses the middle of its text', () => {
    const { call } = fit('acme/small', [say('user', `begin ${words(20_000)}end`)])
    const [block] = call.messages[0]?.blocks ?? []
    const text = block?.type === 'text' ? block.text : ''
    expect([text.startsWith('begin word'), text.endsWith('word end')]).toEqual([true, true])
    expect(text).toContain('\n[…]\n')
    expect(estimateTokens(call)).toBeLessThanOrEqual(3_000)
  })

  test('keeps a call of tools with its results, or neither', () => {
    const turn = fc.nat(3).map(results => results)
    fc.assert(
      fc.property(
        fc.array(fc.tuple(turn, fc.nat(400)), { minLength: 1, maxLength: 30 }),
        fc.integer({ min: 50, max: 4_000 }),
        (turns, tokens) => {
          const messages = turns.flatMap(([results, length], i): Message[] => [
            say('user', words(length)),
            {
              role: 'assistant',
              blocks: Array.from({ length: results }, (_, n) => call(`${i} ${n}`)),
            },
            ...Array.from({ length: results }, (_, n) =>
              say('tool', words(length), { tool_call_id: `${i} ${n}` }),
            ),
          ])
          const given = freezeDeep(buildTextCall({ messages }))
          const kept = compressMessages(given, { tokens, messages: Infinity })
          const called = kept.flatMap(({ blocks }) =>
            blocks.flatMap(block => (block.type === 'tool-call' ? block.id : [])),
          )
          const answered = kept.flatMap(({ tool_call_id }) => tool_call_id ?? [])
          expect(answered).toEqual(called)
          expect(kept.length).toBeLessThanOrEqual(messages.length)
          expect(kept.at(-1)?.role).toBe(messages.at(-1)?.role as Message['role'])
        },
      ),
      { numRuns: 300 },
    )
  })

  test('is the same conversation if it fits', () => {
    const messages = [say('user', 'Hi')]
    const given = buildTextCall({ messages })
    expect(compressMessages(given, { tokens: 1_000, messages: 10 })).toBe(given.messages)
  })
})
