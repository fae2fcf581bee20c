// SPDX-License-Identifier: Apache-2.0
// The bundler takes style sheets as modules, and puts a worker's script into the page's.
declare module "*.css";
declare module "*?worker&inline" {
  const Work: new () => Worker;
  export default Work;
}
