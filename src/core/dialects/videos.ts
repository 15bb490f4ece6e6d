import type { Dialect } from './dialect.ts'
import { toVideoCall } from './videos/request.ts'
import { collectVideoResponse } from './videos/response.ts'
import { VideosRequest } from './videos/schema.ts'

/** The video API: jobs that make videos (wire reference B.3). */
export const videos: Dialect<'video', VideosRequest> = {
  name: 'videos',
  kind: 'video',
  path: '/videos',
  operation: { id: 'createVideos', tag: 'Videos', summary: 'Begin to make a video' },
  body: VideosRequest,
  status: 202,
  toCall: toVideoCall,
  collectResponse: collectVideoResponse,
}
