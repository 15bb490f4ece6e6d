/** Stands for React’s development tools, which Ink imports and a program for operators lacks. */
export default { initialize: () => undefined, connectToDevTools: () => undefined }
