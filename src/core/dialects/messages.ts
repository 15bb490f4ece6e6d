import { understand as understandBody } from './messages/request.ts'
import { withPresets } from './presets.ts'

export { messagesError } from './messages/error.ts'
export { messagesResponse } from './messages/response.ts'
export { MessagesRequest } from './messages/schema.ts'
export { messagesEvents, messagesFailure, PING } from './messages/stream.ts'

/** A checked body → the call, the preset that it names laid under it. Throws 400 where its wishes cannot be, 404 for no such preset. */
export const understand = withPresets(understandBody)
