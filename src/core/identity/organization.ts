import type { Gateway } from '../gateway.ts'

/** The id of the organization that a gateway serves: one for good, since its owner's is. */
export const organizationId = ({ owner }: Pick<Gateway, 'owner'>): string => `org_${owner.user_id.replace(/^user_/, '')}`
