import type { Dialect } from './dialect.ts'
import { toVideoCall } from './videos/request.ts'
import { collectVideoResponse } from './videos/response.ts'
import { VideosForm, VideosRequest } from './videos/schema.ts'

/** The most bytes of the picture of a form: as many as one that is fetched may have. */
const LARGEST_PICTURE = 20 * 1024 * 1024

/** The video API: jobs that make videos (wire reference B.3), also in OpenAI's form. */
export const videos: Dialect<'video', VideosRequest | VideosForm> = {
  name: 'videos',
  kind: 'video',
  path: '/videos',
  operation: { id: 'createVideos', tag: 'Videos', summary: 'Begin to make a video' },
  body: VideosRequest,
  form: { body: VideosForm, file: 'input_reference', whole: LARGEST_PICTURE },
  status: 202,
  toCall: toVideoCall,
  collectResponse: collectVideoResponse,
}
