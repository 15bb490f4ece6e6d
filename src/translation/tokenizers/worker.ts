/** The Worker's side. It loads vocabularies and encodes long texts off the server's event loop. */

import { serveJobs } from '../../base/worker/serve-jobs.ts'
import type { CountRequest, CountResponse } from './encoder.ts'
import { countEncodedTokens } from './encodings.ts'

serveJobs(async ({ id, encoding, texts }: CountRequest) => {
  const answer = (tokens: number | null) => postMessage({ id, tokens } satisfies CountResponse)
  await countEncodedTokens(encoding, texts).then(answer, () => answer(null))
})
