import { describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { GatewayError } from '../../../src/core/errors.ts'
import { inputTokens, outputTokens, type TextPart, type Usage } from '../../../src/core/inference/call.ts'
import { failure } from '../../../src/core/protocols/openai-chat/failure.ts'
import { parts } from '../../../src/core/protocols/openai-chat/parts.ts'
import { ChunkReader } from '../../../src/core/protocols/openai-chat/reader.ts'
import { textCall } from '../../support/call.ts'

/** Answers of real providers, which are not kept in this repository. `GATEWAY_SHARED` says where, when not beside it. */
const SHARED = resolve(process.env.GATEWAY_SHARED ?? join(import.meta.dir, '../../../../shared'))
const RECORDINGS = join(SHARED, 'recordings/openai-chat')
const found = existsSync(RECORDINGS)

const WHOLE = '.json'
const STREAMED = '.chunks.txt'
const casesOf = (ending: string) =>
  (found ? readdirSync(RECORDINGS) : [])
    .filter(name => name.endsWith(ending))
    .map(name => name.slice(0, -ending.length))
    .sort()

const call = textCall()
const isError = (body: unknown) => typeof body === 'object' && body !== null && 'error' in body

const wholeOf = (name: string): unknown => JSON.parse(readFileSync(join(RECORDINGS, name + WHOLE), 'utf8'))
const linesOf = (name: string) =>
  readFileSync(join(RECORDINGS, name + STREAMED), 'utf8')
    .split('\n')
    .filter(line => line.trim() !== '')

function streamedParts(name: string): TextPart[] {
  const reader = new ChunkReader(call)
  return [...linesOf(name), '[DONE]'].flatMap(data => reader.read({ event: null, data }))
}

/** What a client would show of an answer. */
function shown(given: TextPart[]) {
  const calls: { id: string; name: string; input: string }[] = []
  let text = ''
  let reasoning = ''
  let usage: Usage | null = null
  const finishes: string[] = []
  for (const part of given) {
    if (part.type === 'text-delta') text += part.text
    if (part.type === 'reasoning-delta') reasoning += part.text
    if (part.type === 'tool-call-start') calls[part.index] = { id: part.id, name: part.name, input: '' }
    const open = part.type === 'tool-call-delta' ? calls[part.index] : undefined
    if (open && part.type === 'tool-call-delta') open.input += part.input
    if (part.type === 'finish') finishes.push(part.reason)
    if (part.type === 'usage') usage = part.usage
  }
  return { text, reasoning, calls, finishes, usage }
}

/** What no answer of a real provider may lack. */
function expectSane(given: TextPart[]): void {
  const { text, reasoning, calls, finishes, usage } = shown(given)
  expect(given[0]).toMatchObject({ type: 'start', upstream_id: expect.stringMatching(/./) })
  expect(text.length + reasoning.length + calls.length).toBeGreaterThan(0)
  for (const { id, name, input } of calls) {
    expect(id).not.toBe('')
    expect(name).not.toBe('')
    expect(() => JSON.parse(input)).not.toThrow()
  }
  expect(finishes).toEqual([calls.length > 0 ? 'tool_calls' : (finishes[0] ?? 'missing')])
  if (!usage) throw new Error('expected a count')
  expect(inputTokens(usage)).toBeGreaterThan(0)
  expect(outputTokens(usage)).toBeGreaterThan(0)
}

/** What the recording itself says, by the names of its file: which of them think, and which call a tool. */
function expectNamed(name: string, given: TextPart[]): void {
  const { reasoning, calls } = shown(given)
  if (name.includes('reasoning')) expect(reasoning).not.toBe('')
  if (name.includes('tool-call')) expect(calls.length).toBeGreaterThan(0)
}

describe.skipIf(!found)('openai-chat recordings (from GATEWAY_SHARED)', () => {
  const whole = casesOf(WHOLE)
  const errors = whole.filter(name => isError(wholeOf(name)))

  test.each(whole.filter(name => !errors.includes(name)))('%s, whole, is read', name => {
    const given = parts(wholeOf(name), call)
    expectSane(given)
    expectNamed(name, given)
  })

  test.each(casesOf(STREAMED))('%s, streamed, is read', name => {
    const given = streamedParts(name)
    expectSane(given)
    expectNamed(name, given)
  })

  test.each(errors)('%s is a failure in our words', name => {
    expect(() => parts(wholeOf(name), call)).toThrow(GatewayError)
    expect(failure(400, wholeOf(name))).toMatchObject({
      type: 'invalid_request',
      metadata: { provider_code: 'unsupported_parameter', param: 'max_tokens' },
    })
  })

  test.each(casesOf(STREAMED))('%s, streamed, counts what its last count says', name => {
    const counts = linesOf(name)
      .map(line => JSON.parse(line))
      .flatMap(chunk => chunk.usage ?? chunk.x_groq?.usage ?? [])
    const { usage } = shown(streamedParts(name))
    const last = counts.at(-1)
    expect(usage && [inputTokens(usage), outputTokens(usage)]).toEqual(last && [last.prompt_tokens, last.completion_tokens])
  })
})
