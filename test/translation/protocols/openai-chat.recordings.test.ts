import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/base/errors.ts'
import type { TextPart } from '../../../src/language/part.ts'
import { countInputTokens, countOutputTokens } from '../../../src/language/usage.ts'
import { readFailure } from '../../../src/translation/protocols/openai-chat/failure.ts'
import { ChunkReader, parseAnswer } from '../../../src/translation/protocols/openai-chat/reader.ts'
import { buildEndpoint, buildTextCall } from '../../support/call.ts'
import { collectParts } from '../../support/parts.ts'
import { hasRecordings, listRecordings, type Recording } from '../../support/recordings.ts'

const call = buildTextCall()

const bodyOf = ({ lines }: Recording): unknown => JSON.parse(lines.join(''))
const isError = (body: unknown) => typeof body === 'object' && body !== null && 'error' in body

function streamedParts({ lines }: Recording): TextPart[] {
  const reader = new ChunkReader(call, buildEndpoint())
  return [...lines, '[DONE]'].flatMap(data => reader.read({ event: null, data }))
}

/** Expects what every answer of a real provider has. */
function expectSane(given: TextPart[]): void {
  const { upstream_id, text, reasoning, calls, finish, usage } = collectParts(given)
  expect(given[0]?.type).toBe('start')
  expect(upstream_id).not.toBe('')
  expect(text.length + reasoning.length + calls.length).toBeGreaterThan(0)
  for (const { id, name, input } of calls) {
    expect(id).not.toBe('')
    expect(name).not.toBe('')
    expect(() => JSON.parse(input)).not.toThrow()
  }
  expect(given.filter(part => part.type === 'finish')).toHaveLength(1)
  if (calls.length > 0) expect(finish?.reason).toBe('tool_calls')
  if (!usage) throw new Error('expected a count')
  expect(countInputTokens(usage)).toBeGreaterThan(0)
  expect(countOutputTokens(usage)).toBeGreaterThan(0)
}

/**
 * Expects what the recording's file name says: whether the model thinks, and whether it calls a
 * tool.
 */
function expectNamed(name: string, given: TextPart[]): void {
  const { reasoning, calls } = collectParts(given)
  if (name.includes('reasoning')) expect(reasoning).not.toBe('')
  if (name.includes('tool-call')) expect(calls.length).toBeGreaterThan(0)
}

describe.skipIf(!hasRecordings)('openai-chat recordings (from GATEWAY_SHARED)', () => {
  const all = listRecordings('openai-chat').map(one => [one.name, one] as const)
  const streamed = all.filter(([, { mode }]) => mode === 'streamed')
  const whole = all.filter(([, { mode }]) => mode === 'whole')
  const errors = whole.filter(([, one]) => isError(bodyOf(one)))
  const answers = whole.filter(([, one]) => !isError(bodyOf(one)))

  test.each(answers)('reads %s, whole', (name, recording) => {
    const given = parseAnswer(bodyOf(recording), call, buildEndpoint())
    expectSane(given)
    expectNamed(name, given)
  })

  test.each(streamed)('reads %s, streamed', (name, recording) => {
    const given = streamedParts(recording)
    expectSane(given)
    expectNamed(name, given)
  })

  test.each(errors)('reads the failure %s', (_name, recording) => {
    expect(() => parseAnswer(bodyOf(recording), call, buildEndpoint())).toThrow(GatewayError)
    expect(readFailure(400, bodyOf(recording))).toMatchObject({
      type: 'invalid_request',
      metadata: { provider_code: 'unsupported_parameter', param: 'max_tokens' },
    })
  })

  test.each(streamed)('reads the last usage of %s, streamed', (_name, recording) => {
    const counts = recording.lines
      .map(line => JSON.parse(line))
      .flatMap(chunk => chunk.usage ?? chunk.x_groq?.usage ?? [])
    const { usage } = collectParts(streamedParts(recording))
    const last = counts.at(-1)
    expect(usage && [countInputTokens(usage), countOutputTokens(usage)]).toEqual(
      last && [last.prompt_tokens, last.completion_tokens],
    )
  })
})
