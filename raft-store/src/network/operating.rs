//! The operators' door over gRPC.

use super::caller::Caller;
use crate::node::Node;
use crate::operate;
use crate::wire::frames::{Order, OrderReply, operate_server};
use tonic::{Request, Response, Status};

/// Takes orders of operators.
pub struct OperateService(pub Node);

#[tonic::async_trait]
impl operate_server::Operate for OperateService {
    async fn carry(&self, request: Request<Order>) -> Result<Response<OrderReply>, Status> {
        Caller::of(&request)?.may_operate()?;
        let order = request.into_inner();
        tracing::info!(group = order.group, what = ?order.what, "an operator's order");
        Ok(Response::new(operate::carry(&self.0, order).await))
    }
}
