import { isObject, type Json, readObject, readObjects, readString } from '../../../src/base/json.ts'
import type { Frame } from '../../../src/translation/protocols/protocol.ts'
import type { Reading, RefusalReading, Sample } from '../dialect.ts'

/** The sample of Anthropic's Messages API. */
export const sample: Sample = {
  body: { model: 'acme/small', max_tokens: 50, messages: [{ role: 'user', content: 'Hi' }] },
  misfits: [
    [{ messages: [] }, 'messages'],
    [{ max_tokens: 0 }, 'max_tokens'],
    [{ temperature: 1.5 }, 'temperature'],
  ],
  readWhole: message => ({
    text: readObjects(message.content)
      .map(block => readString(block.text) ?? '')
      .join(''),
    finish: readString(message.stop_reason),
    tokens: readTokens(message),
    failure: null,
    isFinished: readString(message.stop_reason) !== null,
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
      .map(event => readString(readObject(event, 'delta').text) ?? '')
      .join(''),
    finish: readString(readObject(last, 'delta').stop_reason),
    tokens: readTokens(last),
    failure: error ? readRefusal(error).message : null,
    isFinished: of('message_stop').length === 1,
  }
}

function readRefusal(refusal: Json): RefusalReading {
  const { error_type, message } = readObject(refusal, 'error')
  return {
    type: readString(error_type),
    message: readString(message) ?? '',
    id: readString(refusal.request_id),
  }
}

function readTokens({ usage }: Json): Reading['tokens'] {
  if (!isObject(usage)) return null
  return { input: Number(usage.input_tokens), output: Number(usage.output_tokens) }
}
