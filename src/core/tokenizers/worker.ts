/** The Worker's side. It loads vocabularies and encodes long texts off the server's event loop. */

import type { Answered, Asked } from './encoder.ts'
import { encodedCount } from './encodings.ts'

self.onmessage = async ({ data: { id, encoding, texts } }: MessageEvent<Asked>) => {
  const answer = (tokens: number | null) => postMessage({ id, tokens } satisfies Answered)
  await encodedCount(encoding, texts).then(answer, () => answer(null))
}
