import type { GatewayError } from '../../errors.ts'

/** An error as it stands inside an answer that has begun (wire reference C.6 and L.2). */
export const chatError = ({ status, message, type, metadata }: GatewayError) => ({
  code: status,
  message,
  metadata: { error_type: type, ...metadata },
})
