import { type Static, Type } from '@sinclair/typebox'
import { PageQuery } from '../../base/pages.ts'
import { closeSchema, oneOf } from '../../base/schema-builders.ts'
import { STATUSES } from './store.ts'

/** The query of `GET /presets` and of `GET /presets/{slug}/versions`. */
export const PresetQuery = closeSchema(PageQuery)
export type PresetQuery = Static<typeof PresetQuery>

/** The body of a change at the terminal. The public API changes no preset. */
export const PresetChange = Type.Object({ status: oneOf(...STATUSES) })
export type PresetChange = Static<typeof PresetChange>
