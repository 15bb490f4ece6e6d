import { readObject, readObjects } from '../../../src/base/json.ts'
import type { Sample } from '../dialect.ts'
import { readRefusal } from './chat.ts'

/** The sample of the rerank API. */
export const sample: Sample = {
  body: { model: 'acme/small', query: 'Hello', documents: ['Hi', { text: 'Bye' }] },
  misfits: [
    [{ query: '' }, 'query'],
    [{ documents: [] }, 'documents'],
    [{ top_n: 0 }, 'top_n'],
  ],
  readWhole: answer => ({
    text: JSON.stringify(
      readObjects(answer.results).map(({ index, relevance_score }) => [index, relevance_score]),
    ),
    finish: null,
    tokens: { input: Number(readObject(answer, 'usage').total_tokens), output: 0 },
    failure: null,
    isFinished: true,
  }),
  readRefusal,
}
