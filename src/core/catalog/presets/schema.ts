import { type Static, Type } from '@sinclair/typebox'
import { PageQuery } from '../../kernel/pages.ts'
import { oneOf } from '../../kernel/schema-builders.ts'
import { STATUSES } from './store.ts'

/** The query of `GET /presets` and of `GET /presets/{slug}/versions`. */
export const PresetQuery = PageQuery
export type PresetQuery = Static<typeof PresetQuery>

/** What the terminal may change of a preset. The public API changes none of it. */
export const PresetChange = Type.Object({ status: oneOf(...STATUSES) })
export type PresetChange = Static<typeof PresetChange>
