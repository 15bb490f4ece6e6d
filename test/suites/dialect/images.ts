import { type Json, parseObject, readObject, readObjects } from '../../../src/base/json.ts'
import type { Reading, Sample } from '../dialect.ts'
import { readRefusal } from './chat.ts'

/** The sample of the images API. */
export const sample: Sample = {
  body: { model: 'acme/small', prompt: 'A cat' },
  misfits: [
    [{ prompt: '' }, 'prompt'],
    [{ n: 0 }, 'n'],
    [{ n: 11 }, 'n'],
    [{ n: 1.5 }, 'n'],
    [{ aspect_ratio: '7:5' }, 'aspect_ratio'],
    [{ quality: 'best' }, 'quality'],
    [{ output_format: 'gif' }, 'output_format'],
    [{ output_compression: 101 }, 'output_compression'],
    [{ output_compression: -1 }, 'output_compression'],
    [{ resolution: '8K' }, 'resolution'],
    [{ size: '0x10' }, 'size'],
    [{ size: '1024' }, 'size'],
  ],
  refusesUnknown: true,
  readWhole: answer => ({
    text: readObjects(answer.data)
      .map(({ b64_json }) => b64_json)
      .join(),
    finish: null,
    tokens: readTokens(answer),
    failure: null,
    isFinished: true,
  }),
  readEvents(frames) {
    const reading: Reading = {
      text: '',
      finish: null,
      tokens: null,
      failure: null,
      isFinished: false,
    }
    for (const { data } of frames) {
      if (data === '[DONE]') reading.isFinished = reading.failure === null
      const event = parseObject(data) ?? {}
      if (event.type === 'error') reading.failure = String(readObject(event, 'error').message)
      if (event.type !== 'image_generation.completed') continue
      reading.text += event.b64_json
      reading.tokens = readTokens(event)
    }
    return reading
  },
  readRefusal,
}

function readTokens(holder: Json): Reading['tokens'] {
  const usage = readObject(holder, 'usage')
  if (usage.prompt_tokens === undefined) return null
  return { input: Number(usage.prompt_tokens), output: Number(usage.completion_tokens) }
}
