import type { Kysely } from 'kysely'
import type { ScimStore } from '../../identity/scim'
import { groupMappingStore } from './scim/group-mappings'
import { scimGroupStore } from './scim/groups'
import { syncJobStore } from './scim/sync-jobs'
import { scimTokenStore } from './scim/tokens'
import { scimUserStore } from './scim/users'
import type { Tables } from './tables'
import type { Write } from './write'

/** What an identity provider has said, in SQL. */
export const scimStore = (kysely: Kysely<Tables>, write: Write): ScimStore => ({
  tokens: scimTokenStore(kysely, write),
  users: scimUserStore(kysely, write),
  groups: scimGroupStore(kysely, write),
  mappings: groupMappingStore(kysely, write),
  jobs: syncJobStore(kysely, write),
})
