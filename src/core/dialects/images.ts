import type { Dialect } from './dialect.ts'
import { toImageCall } from './images/request.ts'
import { collectImageResponse } from './images/response.ts'
import { ImagesForm, ImagesRequest, MAX_REFERENCES } from './images/schema.ts'
import { imageStreaming } from './images/stream.ts'

/** The most bytes of all pictures of a form: as many as those that are fetched may have. */
const LARGEST_PICTURES = 64 * 1024 * 1024

/**
 * The images API: pictures drawn from a prompt (specification E8, reference E), also in the form in
 * which OpenAI's clients send pictures to be changed.
 */
export const images: Dialect<'image', ImagesRequest | ImagesForm> = {
  name: 'images',
  kind: 'image',
  path: '/images',
  operation: { id: 'createImages', tag: 'Images', summary: 'Draw pictures' },
  body: ImagesRequest,
  form: {
    body: ImagesForm,
    file: 'image',
    whole: LARGEST_PICTURES,
    most: MAX_REFERENCES,
    others: ['mask'],
  },
  toCall: toImageCall,
  collectResponse: collectImageResponse,
  streaming: imageStreaming,
}
