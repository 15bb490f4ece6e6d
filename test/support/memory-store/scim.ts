import type { ScimStore } from '../../../src/core/identity/scim.ts'
import type { Connection } from './memory.ts'
import { groupMappingStore } from './scim/group-mappings.ts'
import { scimGroupStore } from './scim/groups.ts'
import { syncJobStore } from './scim/sync-jobs.ts'
import { scimTokenStore } from './scim/tokens.ts'
import { scimUserStore } from './scim/users.ts'

/** The data of identity providers in memory. */
export const scimStore = (connection: Connection): ScimStore => ({
  tokens: scimTokenStore(connection),
  users: scimUserStore(connection),
  groups: scimGroupStore(connection),
  mappings: groupMappingStore(connection),
  jobs: syncJobStore(connection),
})
