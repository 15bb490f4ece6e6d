import type { IdentityWorld } from './world.ts'

/** Returns the id of the organization. It never changes, since it is derived from the owner's id. */
export const organizationId = ({ memory: { owner } }: Pick<IdentityWorld, 'memory'>): string =>
  `org_${owner.user_id.replace(/^user_/, '')}`
