import type { Dialect } from './dialect.ts'
import { toImageCall } from './images/request.ts'
import { collectImageResponse } from './images/response.ts'
import { ImagesRequest } from './images/schema.ts'
import { imageStreaming } from './images/stream.ts'

/** The images API: pictures drawn from a prompt (specification E8, reference E). */
export const images: Dialect<'image', ImagesRequest> = {
  name: 'images',
  kind: 'image',
  path: '/images',
  operation: { id: 'createImages', tag: 'Images', summary: 'Draw pictures' },
  body: ImagesRequest,
  toCall: toImageCall,
  collectResponse: collectImageResponse,
  streaming: imageStreaming,
}
