import type { Sample } from '../dialect.ts'
import { readRefusal } from './chat.ts'

const audio = { type: 'input_audio', input_audio: { data: 'aGk=', format: 'wav' } }

/** The sample of the speech API. */
export const sample: Sample = {
  body: { model: 'acme/small', input: 'Hello', voice: 'alloy' },
  misfits: [
    [{ input: '' }, 'input'],
    [{ input: 7 }, 'input'],
    [{ input: 'a'.repeat(40_001) }, 'input'],
    [{ response_format: 'midi' }, 'response_format'],
    [{ speed: 0.2 }, 'speed'],
    [{ speed: 4.1 }, 'speed'],
    [{ speed: '1' }, 'speed'],
    [{ voice: '' }, 'voice'],
    [{ voice: { id: '' } }, 'voice.id'],
    [{ instructions: '' }, 'instructions'],
    [{ stream_format: 'json' }, 'stream_format'],
    [{ input_references: [audio, audio, audio] }, 'input_references'],
    [{ input_references: [{ type: 'image_url' }] }, 'input_references.0.type'],
  ],
  isRaw: true,
  refusesUnknown: true,
  readWhole: ({ raw }) => ({
    text: String(raw),
    finish: null,
    tokens: null,
    failure: null,
    isFinished: true,
  }),
  readRefusal,
}
