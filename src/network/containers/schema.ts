import { type Static, Type } from '@sinclair/typebox'
import { closed, Uuid } from '../../base/schema-builders.ts'

/** The query of `GET /containers/{container_id}/files` (wire reference F.4). */
export const ContainerFileQuery = Type.Object(
  {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000 })),
    after: Type.Optional(Type.String({ pattern: '^cfile_[A-Za-z0-9_-]+$', maxLength: 16_384 })),
  },
  closed,
)
export type ContainerFileQuery = Static<typeof ContainerFileQuery>

/** Which containers operators list: those of one workspace, or all. */
export const ContainerQuery = Type.Object({ workspace_id: Type.Optional(Uuid) })
export type ContainerQuery = Static<typeof ContainerQuery>

/** Which containers are ended: those unused for so many days. */
export const ContainerPrune = Type.Object({
  workspace_id: Type.Optional(Uuid),
  unused_days: Type.Optional(Type.Integer({ minimum: 0, maximum: 3_650 })),
})
export type ContainerPrune = Static<typeof ContainerPrune>
