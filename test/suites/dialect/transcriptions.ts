import { parseObject, readObject } from '../../../src/base/json.ts'
import { writeWavHead } from '../../../src/base/wav.ts'
import type { Reading, Sample } from '../dialect.ts'
import { readRefusal } from './chat.ts'

const data = writeWavHead(24_000, 0).toString('base64')
const input_audio = { data, format: 'wav' }

/** The sample of the transcriptions API. */
export const sample: Sample = {
  body: { model: 'acme/small', input_audio },
  misfits: [
    [{ input_audio: undefined }, 'input_audio'],
    [{ input_audio: { data } }, 'input_audio.format'],
    [{ input_audio: { data: '', format: 'wav' } }, 'input_audio.data'],
    [{ language: 'English please' }, 'language'],
    [{ prompt: '' }, 'prompt'],
    [{ response_format: 'yaml' }, 'response_format'],
    [{ temperature: -0.1 }, 'temperature'],
    [{ temperature: 1.1 }, 'temperature'],
    [{ timestamp_granularities: ['letter'] }, 'timestamp_granularities.0'],
    [{ timestamp_granularities: 'word' }, 'timestamp_granularities'],
    [{ file: 'x' }, 'file'],
  ],
  refusesUnknown: true,
  readWhole: answer => {
    const { input_tokens, output_tokens } = readObject(answer, 'usage')
    return {
      text: String(answer.text),
      finish: null,
      tokens: { input: Number(input_tokens), output: Number(output_tokens) },
      failure: null,
      isFinished: true,
    }
  },
  readEvents(frames) {
    const reading: Reading = {
      ...{ text: '', finish: null, tokens: null, failure: null, isFinished: false },
    }
    for (const { data } of frames) {
      const event = parseObject(data) ?? {}
      if (event.type === 'error') reading.failure = String(readObject(event, 'error').message)
      if (event.type === 'transcript.text.delta') reading.text += event.delta
      if (event.type !== 'transcript.text.done') continue
      const { input_tokens, output_tokens } = readObject(event, 'usage')
      reading.tokens = { input: Number(input_tokens), output: Number(output_tokens) }
      reading.isFinished = reading.failure === null && reading.text === event.text
    }
    return reading
  },
  readRefusal,
}
