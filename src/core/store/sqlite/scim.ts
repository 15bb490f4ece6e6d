import type { Kysely } from 'kysely'
import type { ScimStore } from '../../identity/scim.ts'
import { groupMappingStore } from './scim/group-mappings.ts'
import { scimGroupStore } from './scim/groups.ts'
import { syncJobStore } from './scim/sync-jobs.ts'
import { scimTokenStore } from './scim/tokens.ts'
import { scimUserStore } from './scim/users.ts'
import type { Tables } from './tables.ts'
import type { Write } from './write.ts'

/** Creates the store of what an identity provider has sent, in SQL. */
export const scimStore = (kysely: Kysely<Tables>, write: Write): ScimStore => ({
  tokens: scimTokenStore(kysely, write),
  users: scimUserStore(kysely, write),
  groups: scimGroupStore(kysely, write),
  mappings: groupMappingStore(kysely, write),
  jobs: syncJobStore(kysely, write),
})
