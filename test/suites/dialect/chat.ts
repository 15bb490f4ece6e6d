import { isObject, type Json, member, objects, text } from '../../../src/core/kernel/json.ts'
import type { Frame } from '../../../src/core/protocols/protocol.ts'
import type { Reading, Refused, Sample } from '../dialect.ts'

/** The sample of the chat API. */
export const sample: Sample = {
  body: { model: 'acme/small', messages: [{ role: 'user', content: 'Hi' }] },
  misfits: [
    [{ messages: [] }, 'messages'],
    [{ messages: [{ role: 'user', content: 5 }] }, 'messages.0.content'],
    [{ temperature: 3 }, 'temperature'],
  ],
  readWhole,
  readEvents,
  readRefusal,
}

/** Reads the first choice of a chat or text completion. */
export function readWhole(answer: Json): Reading {
  const [choice = {}] = objects(answer.choices)
  const finish = text(choice.finish_reason)
  return {
    text: text(choice.text) ?? text(member(choice, 'message').content) ?? '',
    finish,
    tokens: readTokens(answer),
    failure: text(member(choice, 'error').message),
    isFinished: finish !== null && finish !== 'error',
  }
}

export function readEvents(frames: Frame[]): Reading {
  const chunks = frames.flatMap(({ data }) => (data === '[DONE]' ? [] : [JSON.parse(data) as Json]))
  const choices = chunks.flatMap(chunk => objects(chunk.choices))
  const finish = text(choices.find(choice => choice.finish_reason !== null)?.finish_reason)
  const isDone = frames.at(-1)?.data === '[DONE]'
  return {
    text: choices.map(readDelta).join(''),
    finish,
    tokens: chunks.map(readTokens).findLast(tokens => tokens !== null) ?? null,
    failure: text(chunks.map(chunk => member(chunk, 'error').message).find(Boolean)),
    isFinished: isDone && finish !== null && finish !== 'error',
  }
}

const readDelta = (choice: Json): string =>
  text(choice.text) ?? text(member(choice, 'delta').content) ?? ''

/** Reads the usual error envelope. */
export function readRefusal(refusal: Json): Refused {
  const error = member(refusal, 'error')
  const { error_type, request_id } = member(error, 'metadata')
  return { type: text(error_type), message: text(error.message) ?? '', id: text(request_id) }
}

function readTokens({ usage }: Json): Reading['tokens'] {
  if (!isObject(usage)) return null
  return { input: Number(usage.prompt_tokens), output: Number(usage.completion_tokens) }
}
