/** The clients' dialect that this API speaks too: what it has of its own goes both ways as it came. */
export const NATIVE = 'responses'
