import type { Kind } from '../language/work.ts'
import type { KindOfWork } from './kind.ts'
import { embedding } from './kinds/embedding.ts'
import { image } from './kinds/image.ts'
import { rerank } from './kinds/rerank.ts'
import { speech } from './kinds/speech.ts'
import { text } from './kinds/text.ts'
import { transcription } from './kinds/transcription.ts'
import { video } from './kinds/video.ts'

/** Every kind of work. */
export const kinds: { [K in Kind]: KindOfWork<K> } = {
  text,
  embedding,
  rerank,
  image,
  speech,
  transcription,
  video,
}
