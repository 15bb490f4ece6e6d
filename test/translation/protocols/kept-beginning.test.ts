import { beforeAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { Gateway } from '../../../src/app/gateway.ts'
import { isObject, type Json, readObjects } from '../../../src/base/json.ts'
import { text } from '../../../src/engine/kinds/text.ts'
import type { TextCall } from '../../../src/language/call.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { toChatCall } from '../../../src/translation/dialects/chat/request.ts'
import { toMessagesCall } from '../../../src/translation/dialects/messages/request.ts'
import { toResponsesCall } from '../../../src/translation/dialects/responses/request.ts'
import { protocols } from '../../../src/translation/protocols/registry.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../../support/call.ts'
import { testGateway } from '../../support/gateway.ts'

/*
 * Providers cache a prompt as far as it begins like an earlier one: when a conversation goes on,
 * everything that was sent before is sent again as it was, and what is new stands behind it. Else
 * each turn of an agent costs ten times as much.
 */

let gateway: Gateway
beforeAll(async () => {
  gateway = await testGateway()
})

/** What happens in a conversation, one after the other. */
type Step =
  | { is: 'user'; words: string; picture?: boolean }
  | { is: 'system'; words: string }
  | { is: 'answer'; words: string; thought?: string }
  /** Uses of tools with their results; ids may come again, as some models count from zero. */
  | { is: 'tools'; names: string[]; words: string; repeatsIds: boolean; thought?: string }

const PICTURE = 'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk'
const SCHEMA = { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] }
const NAMES = ['read_file', 'mcp__server__list-all', 'run']
const base = { model: 'acme/small' }

const idOf = (step: Extract<Step, { is: 'tools' }>, place: number, i: number) =>
  step.repeatsIds ? `call_${i}` : `call_${place}_${i}`

const DOORS: Record<string, (steps: Step[]) => TextCall> = {
  messages(steps) {
    const messages = steps.flatMap((step, place): Json[] => {
      if (step.is === 'user')
        return [
          {
            role: 'user',
            content: [
              { type: 'text', text: step.words },
              ...(step.picture
                ? [
                    {
                      type: 'image',
                      source: {
                        type: 'base64',
                        media_type: 'image/png',
                        data: PICTURE.split(',')[1],
                      },
                    },
                  ]
                : []),
            ],
          },
        ]
      if (step.is === 'system') return [{ role: 'system', content: step.words }]
      const thought = step.thought
        ? [{ type: 'thinking', thinking: step.thought, signature: 's' }]
        : []
      if (step.is === 'answer')
        return [{ role: 'assistant', content: [...thought, { type: 'text', text: step.words }] }]
      const uses = step.names.map((name, i) => ({
        type: 'tool_use',
        id: idOf(step, place, i),
        name,
        input: { path: step.words },
      }))
      const results = step.names.map((_, i) => ({
        type: 'tool_result',
        tool_use_id: idOf(step, place, i),
        content: `${step.words} ${i}`,
      }))
      return [
        { role: 'assistant', content: [...thought, ...uses] },
        { role: 'user', content: results },
      ]
    })
    const tools = NAMES.map(name => ({ name, input_schema: SCHEMA }))
    const body = { ...base, max_tokens: 100, system: 'Be kind', tools, messages }
    return toMessagesCall(gateway, getOperator(gateway), body as never, context())
  },
  chat(steps) {
    const messages = steps.flatMap((step, place): Json[] => {
      if (step.is === 'user')
        return [
          {
            role: 'user',
            content: step.picture
              ? [
                  { type: 'text', text: step.words },
                  { type: 'image_url', image_url: { url: PICTURE } },
                ]
              : step.words,
          },
        ]
      if (step.is === 'system') return [{ role: 'system', content: step.words }]
      if (step.is === 'answer') return [{ role: 'assistant', content: step.words }]
      return [
        {
          role: 'assistant',
          content: null,
          tool_calls: step.names.map((name, i) => ({
            id: idOf(step, place, i),
            type: 'function',
            function: { name, arguments: JSON.stringify({ path: step.words }) },
          })),
        },
        ...step.names.map((_, i) => ({
          role: 'tool',
          tool_call_id: idOf(step, place, i),
          content: `${step.words} ${i}`,
        })),
      ]
    })
    const tools = NAMES.map(name => ({ type: 'function', function: { name, parameters: SCHEMA } }))
    const body = { ...base, tools, messages: [{ role: 'system', content: 'Be kind' }, ...messages] }
    return toChatCall(gateway, getOperator(gateway), body as never, context())
  },
  responses(steps) {
    const input = steps.flatMap((step, place): Json[] => {
      if (step.is === 'user')
        return [
          {
            type: 'message',
            role: 'user',
            content: [
              { type: 'input_text', text: step.words },
              ...(step.picture ? [{ type: 'input_image', image_url: PICTURE }] : []),
            ],
          },
        ]
      if (step.is === 'system') return [{ type: 'message', role: 'developer', content: step.words }]
      if (step.is === 'answer')
        return [
          {
            type: 'message',
            role: 'assistant',
            content: [{ type: 'output_text', text: step.words, annotations: [] }],
          },
        ]
      return [
        ...step.names.map((name, i) => ({
          type: 'function_call',
          call_id: idOf(step, place, i),
          name,
          arguments: JSON.stringify({ path: step.words }),
        })),
        ...step.names.map((_, i) => ({
          type: 'function_call_output',
          call_id: idOf(step, place, i),
          output: `${step.words} ${i}`,
        })),
      ]
    })
    const tools = NAMES.map(name => ({ type: 'function', name, parameters: SCHEMA, strict: false }))
    return toResponsesCall(
      gateway,
      getOperator(gateway),
      { ...base, instructions: 'Be kind', tools, input } as never,
      context(),
    )
  },
}

const { origin, id } = buildTextCall()
const context = () => ({ id, origin, session_id: null, betas: [] })

const ENDPOINTS: [name: string, protocol: string, slug: string, model: string][] = [
  ['Claude with system messages', 'anthropic-messages', 'anthropic', 'claude-opus-5'],
  ['Claude', 'anthropic-messages', 'anthropic', 'claude-sonnet-5'],
  ['older Claude', 'anthropic-messages', 'anthropic', 'claude-haiku-4-5'],
  ['GLM by Anthropic’s API', 'anthropic-messages', 'z-ai', 'glm-5'],
  ['OpenAI', 'openai-responses', 'openai', 'gpt-6-luna'],
  ['OpenAI by chat', 'openai-chat', 'openai', 'gpt-6-luna'],
  ['a chat server', 'openai-chat', 'acme', 'm'],
  ['DeepSeek', 'openai-chat', 'deepseek', 'deepseek-chat'],
  ['Mistral', 'openai-chat', 'mistral', 'mistral-large'],
  ['Gemini', 'gemini', 'google-ai-studio', 'gemini-3-pro'],
  ['Cohere', 'cohere-chat', 'cohere', 'command-a'],
  ['Claude at Bedrock', 'bedrock-converse', 'amazon-bedrock', 'anthropic.claude-sonnet-4-5-v1:0'],
  ['Nova', 'bedrock-converse', 'amazon-bedrock', 'amazon.nova-pro-v1:0'],
]

/** Lists what a provider reads of a body, in its order and piece by piece, without marks of caches. */
function listPieces(body: Json): string[] {
  const { messages, input, contents, system, systemInstruction, instructions, tools, toolConfig } =
    body
  const pieces = [
    JSON.stringify([tools, toolConfig]),
    ...toPieces('system', system ?? systemInstruction ?? instructions),
  ]
  for (const message of readObjects(messages ?? input ?? contents)) {
    const { content, parts, ...rest } = message
    pieces.push(...toPieces(String(message.role ?? message.type), content ?? parts ?? []))
    if (rest.tool_calls) pieces.push(JSON.stringify(rest.tool_calls))
    if (rest.type !== undefined && rest.type !== 'message') pieces.push(JSON.stringify(rest))
    if (rest.tool_call_id) pieces.push(String(rest.tool_call_id))
  }
  return pieces
}

/** Lists the parts of a content; a text is one that has only this. */
const toPieces = (role: string, content: unknown): string[] => {
  const parts = isObject(content) ? content.parts : content
  const list = Array.isArray(parts) ? parts : parts == null ? [] : [{ text: parts }]
  return list.flatMap((part: Json) => {
    const { cache_control: _, cachePoint, type = 'text', ...rest } = part
    return cachePoint ? [] : [`${role} ${type} ${JSON.stringify(rest)}`]
  })
}

const words = fc.string({ minLength: 1, maxLength: 8 }).map(said => `w${said}`)
const thought = fc.option(words, { nil: undefined, freq: 3 })
const moreOf = fc.oneof(
  fc.record({
    is: fc.constant('tools' as const),
    names: fc.array(fc.constantFrom(...NAMES), { minLength: 1, maxLength: 3 }),
    words,
    repeatsIds: fc.boolean(),
    thought,
  }),
  fc.record({ is: fc.constant('system' as const), words }),
)
const turn = fc
  .tuple(
    fc.record({ is: fc.constant('user' as const), words, picture: fc.boolean() }),
    fc.array(moreOf, { maxLength: 4 }),
    fc.record({ is: fc.constant('answer' as const), words, thought }),
  )
  .map(([user, more, answer]) => [user, ...more, answer] as Step[])

describe.each(Object.entries(DOORS))('a conversation by %s', (door, toCall) => {
  test.each(ENDPOINTS)('keeps its beginning at %s', (_name, protocol, slug, upstreamModel) => {
    // A later system message of a chat client keeps its weight: in front, where there is no other.
    const hasSystemTurns = protocol.startsWith('openai') || upstreamModel === 'claude-opus-5'
    const mayChange = door !== 'chat' || hasSystemTurns
    const endpoint = buildEndpoint({
      protocol: protocol as never,
      upstreamModel,
      provider: buildProvider({ slug }),
    })
    const piecesOf = (steps: Step[]) => {
      const call = text.understanding.fitToEndpoint(toCall(steps), endpoint)
      const request = protocols.text[protocol]?.buildRequest(call, endpoint)
      return listPieces(request?.body as Json)
    }
    fc.assert(
      fc.property(fc.array(turn, { minLength: 1, maxLength: 4 }), turns => {
        const steps = turns.flat().filter(({ is }) => is !== 'system' || mayChange)
        let before: string[] = []
        for (const [end, { is }] of steps.entries()) {
          // It was the model's turn.
          if (is !== 'tools' && is !== 'answer') continue
          const now = piecesOf(steps.slice(0, end))
          expect(now.slice(0, before.length)).toEqual(before)
          before = now
        }
      }),
      { numRuns: 40 },
    )
  })
})
