import type { IdentityWorld } from './world.ts'

/** Returns the id of the organization. It derives from the owner's id and never changes. */
export const getOrganizationId = ({ memory: { owner } }: Pick<IdentityWorld, 'memory'>): string =>
  `org_${owner.user_id.replace(/^user_/, '')}`
