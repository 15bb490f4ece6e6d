import { readObject, readObjects } from '../../../src/base/json.ts'
import type { Sample } from '../dialect.ts'
import { readRefusal } from './chat.ts'

/** The sample of the embeddings API. */
export const sample: Sample = {
  body: { model: 'acme/small', input: 'Hi' },
  misfits: [
    [{ input: '' }, 'input'],
    [{ dimensions: 0 }, 'dimensions'],
    [{ encoding_format: 'hex' }, 'encoding_format'],
  ],
  readWhole: answer => ({
    text: JSON.stringify(readObjects(answer.data).map(({ embedding }) => embedding)),
    finish: null,
    tokens: { input: Number(readObject(answer, 'usage').prompt_tokens), output: 0 },
    failure: null,
    isFinished: answer.object === 'list',
  }),
  readRefusal,
}
