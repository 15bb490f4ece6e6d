import { describe, expect, test } from 'bun:test'
import { isObject, type Json, readObject, readObjects } from '../../../src/base/json.ts'
import type { TextPart } from '../../../src/language/part.ts'
import { countInputTokens, countOutputTokens } from '../../../src/language/usage.ts'
import { readFailure } from '../../../src/translation/protocols/openai-chat/failure.ts'
import {
  EventReader,
  parseAnswer,
} from '../../../src/translation/protocols/openai-responses/reader.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../../support/call.ts'
import { collectParts } from '../../support/parts.ts'
import { hasRecordings, listRecordings, type Recording } from '../../support/recordings.ts'

const call = buildTextCall()
const endpoint = buildEndpoint({ provider: buildProvider({ slug: 'openai' }) })

const bodyOf = ({ lines }: Recording): Json => JSON.parse(lines.join(''))
const eventsOf = ({ lines }: Recording): Json[] => lines.map(line => JSON.parse(line))

function streamedParts({ lines }: Recording): TextPart[] {
  const reader = new EventReader(call, endpoint)
  const given = lines.flatMap(data => reader.read({ event: null, data }))
  expect(reader.complete).toBe(true)
  return given
}

/** Calls after which OpenAI's own client reports that the model has stopped. */
const OPEN_ENDED = ['shell', 'local_shell', 'tool_search']

/** Expects the parts to match what the response itself contains. */
function expectOf(given: TextPart[], said: string, output: Json[], response: Json): void {
  const { text, calls, finish, usage, upstream_id, details } = collectParts(given)
  expect(text).toBe(said)
  const functions = output.filter(item => item.type === 'function_call')
  expect(calls.filter(({ id }) => functions.some(item => item.call_id === id))).toEqual(
    functions.map(item => ({
      id: String(item.call_id),
      name: String(item.name),
      input: String(item.arguments),
    })),
  )
  const secrets = output
    .filter(item => item.type === 'reasoning')
    .flatMap(item => item.encrypted_content ?? [])
  expect(details.flatMap(detail => detail.data ?? [])).toEqual(secrets)
  expect(finish?.reason).toBe(
    calls.some(({ name }) => !OPEN_ENDED.includes(name)) ? 'tool_calls' : 'stop',
  )
  expect(upstream_id).not.toBe('')
  const counted = readObject(response, 'usage')
  expect(usage && [countInputTokens(usage), countOutputTokens(usage)]).toEqual([
    Number(counted.input_tokens),
    Number(counted.output_tokens),
  ])
  expect(given.filter(part => part.type === 'finish')).toHaveLength(1)
}

describe.skipIf(!hasRecordings)('openai-responses recordings (from GATEWAY_SHARED)', () => {
  const all = listRecordings('openai-responses').map(one => [one.name, one] as const)
  const streamed = all.filter(([, { mode }]) => mode === 'streamed')
  const whole = all.filter(([, { mode }]) => mode === 'whole')
  const errors = whole.filter(([, one]) => isObject(bodyOf(one).error))
  const answers = whole.filter(([, one]) => !isObject(bodyOf(one).error))

  test.each(answers)('reads the content of %s, whole', (_name, recording) => {
    const body = bodyOf(recording)
    const contents = readObjects(body.output).flatMap(item =>
      item.type === 'message' ? readObjects(item.content) : [],
    )
    expectOf(
      parseAnswer(body, call, endpoint),
      contents.map(content => content.text).join(''),
      readObjects(body.output),
      body,
    )
  })

  test.each(streamed)('reads the items of %s, streamed', (_name, recording) => {
    const events = eventsOf(recording)
    const of = (type: string) => events.filter(event => event.type === type)
    const items = of('response.output_item.done').map(event => readObject(event, 'item'))
    const said = of('response.output_text.delta').map(event => event.delta)
    expectOf(
      streamedParts(recording),
      said.join(''),
      items,
      readObject(events.at(-1) ?? {}, 'response'),
    )
  })

  test.each(errors)('reads the failure %s', (_name, recording) => {
    expect(readFailure(400, bodyOf(recording))).toMatchObject({
      type: 'invalid_request',
      metadata: { param: 'temperature' },
    })
  })
})
