import type { Sample } from '../dialect.ts'
import { readEvents, readRefusal, readWhole } from './chat.ts'

/** The sample of the text completions API. */
export const sample: Sample = {
  body: { model: 'acme/small', prompt: 'Hi' },
  misfits: [
    [{ prompt: '' }, 'prompt'],
    [{ prompt: ['Hi'] }, 'prompt'],
    [{ temperature: 3 }, 'temperature'],
  ],
  readWhole,
  readEvents,
  readRefusal,
}
