import { type Static, Type } from '@sinclair/typebox'
import { closed, Id, oneOf } from '../../base/schema-builders.ts'
import { VIDEO_STATUSES } from '../../resources/videos.ts'

/** The query of `GET /videos/{jobId}/content`. */
export const VideoContentQuery = Type.Object(
  { index: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000 })) },
  closed,
)
export type VideoContentQuery = Static<typeof VideoContentQuery>

/** Which jobs operators list. */
export const VideoQuery = Type.Object(
  {
    workspace_id: Type.Optional(Id),
    status: Type.Optional(oneOf(...VIDEO_STATUSES)),
  },
  closed,
)
export type VideoQuery = Static<typeof VideoQuery>

/** Whose secret operators ask for. */
export const VideoSecretQuery = Type.Object({ workspace_id: Type.Optional(Id) }, closed)
export type VideoSecretQuery = Static<typeof VideoSecretQuery>
