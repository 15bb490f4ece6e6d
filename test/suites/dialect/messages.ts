import { isObject, type Json, member, objects, text } from '../../../src/core/kernel/json.ts'
import type { Frame } from '../../../src/core/protocols/protocol.ts'
import type { Reading, Refused, Sample } from '../dialect.ts'

/** The sample of Anthropic's Messages API. */
export const sample: Sample = {
  body: { model: 'acme/small', max_tokens: 50, messages: [{ role: 'user', content: 'Hi' }] },
  misfits: [
    [{ messages: [] }, 'messages'],
    [{ max_tokens: 0 }, 'max_tokens'],
    [{ temperature: 1.5 }, 'temperature'],
  ],
  readWhole: message => ({
    text: objects(message.content)
      .map(block => text(block.text) ?? '')
      .join(''),
    finish: text(message.stop_reason),
    tokens: readTokens(message),
    failure: null,
    isFinished: text(message.stop_reason) !== null,
  }),
  readEvents,
  readRefusal,
}

function readEvents(frames: Frame[]): Reading {
  const events = frames.map(({ data }) => JSON.parse(data) as Json)
  const of = (type: string) => events.filter(event => event.type === type)
  const [last = {}] = of('message_delta')
  const [error] = of('error')
  return {
    text: of('content_block_delta')
      .map(event => text(member(event, 'delta').text) ?? '')
      .join(''),
    finish: text(member(last, 'delta').stop_reason),
    tokens: readTokens(last),
    failure: error ? readRefusal(error).message : null,
    isFinished: of('message_stop').length === 1,
  }
}

function readRefusal(refusal: Json): Refused {
  const { error_type, message } = member(refusal, 'error')
  return { type: text(error_type), message: text(message) ?? '', id: text(refusal.request_id) }
}

function readTokens({ usage }: Json): Reading['tokens'] {
  if (!isObject(usage)) return null
  return { input: Number(usage.input_tokens), output: Number(usage.output_tokens) }
}
