import type { IdentityWorld } from './world.ts'

/** The id of the organization that a gateway serves: one for good, since its owner's is. */
export const organizationId = ({ memory: { owner } }: Pick<IdentityWorld, 'memory'>): string =>
  `org_${owner.user_id.replace(/^user_/, '')}`
