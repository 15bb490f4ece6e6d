/** The caller's end user as the provider may know him: stable within a workspace, and never the name he was given (specification E8, E9). */
export const hashedUser = (workspace_id: string, user: string): string => Bun.CryptoHasher.hash('sha256', `${workspace_id}:${user}`, 'hex')
