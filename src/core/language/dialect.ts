/** The clients' ways of speaking. */
export type Dialect = 'chat' | 'messages' | 'responses'
